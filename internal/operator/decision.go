package operator

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/onceward/onceward/middleware/ledger"
)

// decisionName recognises a decision that arrives twice. With an
// Idempotency-Key, request hashes who sends it and body what they said.
type decisionName struct {
	request, body string
	fresh         string // without an Idempotency-Key
}

var visible = regexp.MustCompile(`^[\x21-\x7e]{1,255}$`)

func (s *Service) decisionName(id Identity, key ledger.Key, idempotencyKey, verb string, body any) (decisionName, error) {
	if idempotencyKey == "" {
		return decisionName{fresh: "d-" + s.cfg.NewID()}, nil
	}
	if !visible.MatchString(idempotencyKey) {
		var wrong invalid
		wrong.add("header.Idempotency-Key", "want 1 to 255 visible ASCII characters")
		return decisionName{}, wrong.problem()
	}
	text, err := json.Marshal(body)
	if err != nil {
		return decisionName{}, problem(Internal, "").because(err)
	}
	return decisionName{
		request: "k-" + hash(id.Tenant, key.String(), id.Actor, idempotencyKey) + "-",
		body:    hash(verb, string(text)),
	}, nil
}

func (n decisionName) id() string { return n.fresh + n.request + n.body }

// among returns the entry of this very decision, nil if there is none. Another
// decision under the same Idempotency-Key is a problem.
func (n decisionName) among(decisions []ledger.Entry) (*ledger.Entry, error) {
	for i := range decisions {
		switch id := decisions[i].ID; {
		case id == n.id():
			return &decisions[i], nil
		case n.request != "" && strings.HasPrefix(id, n.request):
			return nil, problem(KeyReused, "")
		}
	}
	return nil, nil //nolint:nilnil // "not there" is an answer, not an error
}

// hash is short, and no part can be moved into its neighbour.
func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash never fails to be written to
	}
	return base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:15])
}
