package gateway

import (
	"crypto/rand"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Claims of the authorizer that functions read. ClaimTenant is absent for the
// empty tenant; ClaimScopes is a list separated by spaces.
const (
	ClaimTenant  = "custom:tenant"
	ClaimSubject = "sub"
	ClaimScopes  = "scope"
)

// TokenPrefix starts a development token: "dev:<tenant>:<actor>", optionally
// followed by ":<scope>,<scope>". It proves nothing.
const TokenPrefix = "dev:"

// howToSignIn tells a person how to write one; encoding/json would escape "<".
const howToSignIn = "dev:TENANT:NAME or dev:TENANT:NAME:SCOPE,SCOPE, such as dev::ada where there are no tenants"

var (
	tenantPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{0,40}$`)
	actorPattern  = regexp.MustCompile(`^[\x21\x23-\x39\x3b-\x5b\x5d-\x7e]{1,128}$`)
	scopePattern  = regexp.MustCompile(`^[\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]+$`)
)

// identity is what a token says of its bearer.
type identity struct {
	tenant string
	actor  string
	scopes []string
}

// authorize reads the development token of a request's Authorization headers.
func authorize(headers, defaultScopes []string) (identity, error) {
	if len(headers) != 1 {
		return identity{}, errors.New("exactly one Authorization header is required")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	claims, ok := strings.CutPrefix(token, TokenPrefix)
	if !strings.EqualFold(scheme, "Bearer") || !ok {
		return identity{}, errors.New("the token is not a development token")
	}
	parts := strings.SplitN(claims, ":", 3) // scopes may contain colons
	if len(parts) < 2 || !tenantPattern.MatchString(parts[0]) || !actorPattern.MatchString(parts[1]) {
		return identity{}, errors.New("the token's tenant or actor is malformed")
	}
	id := identity{tenant: parts[0], actor: parts[1], scopes: defaultScopes}
	if len(parts) == 3 {
		scopes, err := parseScopes(parts[2])
		if err != nil {
			return identity{}, err
		}
		id.scopes = scopes
	}
	return id, nil
}

// parseScopes reads a comma list; the empty list means no scopes at all.
func parseScopes(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	scopes := strings.Split(list, ",")
	if slices.ContainsFunc(scopes, func(s string) bool { return !scopePattern.MatchString(s) }) {
		return nil, errors.New("the token's scopes are malformed")
	}
	return scopes, nil
}

func (i identity) claims() map[string]string {
	claims := map[string]string{ClaimSubject: i.actor}
	if i.tenant != "" {
		claims[ClaimTenant] = i.tenant
	}
	if len(i.scopes) > 0 {
		claims[ClaimScopes] = strings.Join(i.scopes, " ")
	}
	return claims
}

func randomID() string { return rand.Text() }
