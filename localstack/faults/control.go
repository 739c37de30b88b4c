package faults

import (
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxControl bounds the body of a control request.
const maxControl = 64 << 10

// Handler serves the plan to people and tests. /_local/faults: GET lists the
// rules with their counts, POST arms one and answers its id, DELETE takes all
// out, DELETE /_local/faults/{id} one. /_local/requests: GET lists request
// counts, DELETE resets them. A refused rule is answered 400 with every wrong
// field. Requests sent by web pages of other origins are refused.
func (p *Plan) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_local/faults", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"faults": p.Rules()})
	})
	mux.HandleFunc("POST /_local/faults", p.serveArm)
	mux.HandleFunc("DELETE /_local/faults", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"cleared": p.Clear()})
	})
	mux.HandleFunc("DELETE /_local/faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		if err := p.Disarm(r.PathValue("id")); err != nil {
			refuse(w, http.StatusNotFound, err)
			return
		}
		answer(w, http.StatusOK, map[string]any{"cleared": 1})
	})
	mux.HandleFunc("GET /_local/requests", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"requests": p.Requests()})
	})
	mux.HandleFunc("DELETE /_local/requests", func(w http.ResponseWriter, _ *http.Request) {
		p.ResetRequests()
		w.WriteHeader(http.StatusNoContent)
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

func (p *Plan) serveArm(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxControl))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, err)
		return
	}
	rule, err := ParseRule(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	id, err := p.Arm(rule)
	switch {
	case errors.Is(err, ErrDuplicateID):
		refuse(w, http.StatusConflict, err)
	case err != nil:
		refuse(w, http.StatusBadRequest, err)
	default:
		answer(w, http.StatusCreated, map[string]any{"id": id})
	}
}

// ParseRule decodes a rule strictly: unknown and duplicate fields, values of
// the wrong type and zero counts are refused, with a [*RuleError] that names
// every wrong field.
func ParseRule(body []byte) (Rule, error) {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		bad := &RuleError{}
		bad.add("(body)", "must be one JSON object without duplicate names")
		return Rule{}, bad
	}
	var rule Rule
	targets := map[string]any{
		"id": &rule.ID, "service": &rule.Service, "operation": &rule.Operation, "function": &rule.Function,
		"caller": &rule.Caller, "contains": &rule.Contains, "nth": &rule.Nth, "times": &rule.Times,
		"effect": &rule.Effect, "status": &rule.Status, "code": &rule.Code, "message": &rule.Message,
		"milliseconds": &rule.Milliseconds, "of": &rule.Of,
	}
	bad := decodeFields(fields, targets)
	if _, err := rule.normalise(); err != nil {
		bad.merge(err)
	}
	return rule, bad.orNil()
}

func decodeFields(fields map[string]jsontext.Value, targets map[string]any) *RuleError {
	bad := &RuleError{}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := fields[name]
		target, ok := targets[name]
		_, whole := target.(*int)
		switch {
		case !ok:
			bad.add(name, "unknown field")
		case value.Kind() == 'n' || json.Unmarshal(value, target) != nil:
			bad.add(name, "must be %s", typeName(whole))
		case whole && *target.(*int) == 0:
			bad.add(name, "must not be zero")
		}
	}
	return bad
}

func typeName(whole bool) string {
	if whole {
		return "a whole number"
	}
	return "a string"
}

// merge adds the fields of another refusal that are not named yet: a field
// that could not be decoded is not also reported as missing.
func (e *RuleError) merge(err error) {
	other, ok := errors.AsType[*RuleError](err)
	if !ok {
		return
	}
	for _, f := range other.Fields {
		if !slices.ContainsFunc(e.Fields, func(have FieldError) bool { return have.Field == f.Field }) {
			e.Fields = append(e.Fields, f)
		}
	}
}

func refuse(w http.ResponseWriter, status int, err error) {
	body := map[string]any{"error": err.Error()}
	if bad, ok := errors.AsType[*RuleError](err); ok {
		body["fields"] = bad.Fields
	}
	answer(w, status, body)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body, json.Deterministic(true), jsontext.WithIndent("  "))
}
