package billing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// SessionRequest signs a client in. The account may instead be named in the
// header X-Account-Id; it only decides whether a fault strikes and does not
// limit what the token may be used for.
type SessionRequest struct {
	ClientID  string `json:"client_id"`
	AccountID string `json:"account_id,omitzero"`
}

// Session is a signed-in client. Token is a secret.
type Session struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// signer makes and checks tokens. They carry their own expiry and are signed
// with a secret from the data file, so they stay valid over a restart.
type signer struct {
	secret   []byte
	lifetime time.Duration
	now      func() time.Time
}

func (s signer) issue(client string) Session {
	expires := s.now().Add(s.lifetime).UTC().Truncate(time.Second)
	claim := base64.RawURLEncoding.EncodeToString([]byte(client)) + "." + strconv.FormatInt(expires.Unix(), 10)
	return Session{Token: claim + "." + s.sign(claim), ExpiresAt: expires}
}

func (s signer) valid(token string) bool {
	i := strings.LastIndexByte(token, '.')
	if i < 0 || !hmac.Equal([]byte(token[i+1:]), []byte(s.sign(token[:i]))) {
		return false
	}
	_, expiry, _ := strings.Cut(token[:i], ".")
	unix, err := strconv.ParseInt(expiry, 10, 64)
	return err == nil && s.now().Before(time.Unix(unix, 0))
}

func (s signer) sign(claim string) string {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(claim))
	return hex.EncodeToString(mac.Sum(nil))
}
