package lambda

import (
	"net/http"
	"regexp"
)

// referencePattern takes a function's name, partial ARN or ARN apart:
// region, account, name and qualifier.
var referencePattern = regexp.MustCompile(
	`^(?:arn:aws[a-z-]*:lambda:([a-z0-9-]+):)?(?:(\d{12}):)?(?:function:)?([A-Za-z0-9_-]{1,64})(?::(\$LATEST|[A-Za-z0-9_-]{1,128}))?$`)

// resolve finds the function that a reference and an optional qualifier name.
func (s *Supervisor) resolve(reference, qualifier string) (*pool, string, error) {
	m := referencePattern.FindStringSubmatch(reference)
	if m == nil {
		return nil, "", invalidParameter("1 validation error detected: Value '" + reference +
			"' at 'functionName' failed to satisfy constraint: it must be a function's name, partial ARN or ARN")
	}
	region, account, name := m[1], m[2], m[3]
	switch {
	case qualifier == "":
		qualifier = m[4]
	case m[4] != "" && m[4] != qualifier:
		return nil, "", invalidParameter(
			"The derived qualifier from the function name does not match the specified qualifier.")
	}
	arn := Function{Name: name}.ARN()
	if qualifier != "" {
		arn += ":" + qualifier
	}
	missing := &APIError{
		Status: http.StatusNotFound, Code: "ResourceNotFoundException", Fault: "User", Message: "Function not found: " + arn,
	}
	if (region != "" && region != Region) || (account != "" && account != Account) {
		missing.Message = "Function not found: " + reference
		return nil, "", missing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[name]
	if p == nil || !p.fn.serves(qualifier) {
		return nil, "", missing
	}
	return p, arn, nil
}
