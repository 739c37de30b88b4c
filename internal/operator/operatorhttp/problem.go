package operatorhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/onceward/onceward/internal/operator"
)

const problemType = "application/problem+json"

// strictJSON refuses duplicate names, invalid UTF-8 and anything behind the
// value; unknown names are refused by the schemas.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error {
		if err := jsonv2.Unmarshal(data, v); err != nil {
			return errNotStrict // its text could repeat what was sent
		}
		return nil
	},
}

var errNotStrict = errors.New("not one JSON value with each name once")

// answered is a problem on its way out: it tells huma its status, headers and
// content type.
type answered struct{ *operator.Problem }

// GetStatus implements [huma.StatusError].
func (a answered) GetStatus() int { return a.Status }

// ContentType implements [huma.ContentTypeFilter].
func (answered) ContentType(string) string { return problemType }

// GetHeaders implements [huma.HeadersError].
func (a answered) GetHeaders() http.Header {
	if a.Status == http.StatusServiceUnavailable {
		return http.Header{"Retry-After": {"1"}}
	}
	return nil
}

// asProblem turns what the service returned into an answer; what is not a
// problem of its own is internal.
func asProblem(err error) answered {
	if p, ok := errors.AsType[*operator.Problem](err); ok {
		return answered{p}
	}
	return answered{operator.NewProblem(operator.Internal, "", err)}
}

// problems replaces huma's own error documents, which repeat values and speak of
// internals, by ours.
func (s *server) problems(ctx huma.Context, _ string, v any) (any, error) {
	switch model := v.(type) {
	case *huma.ErrorModel:
		return fromModel(model), nil
	case answered:
		if model.Status >= http.StatusInternalServerError {
			s.log.LogAttrs(ctx.Context(), slog.LevelError, "request failed", slog.String("operation", ctx.Operation().OperationID),
				slog.String("code", string(model.Code)), slog.Any("error", model.Unwrap()))
		}
		return model.Problem, nil
	}
	return v, nil
}

var codeOfStatus = map[int]operator.Code{
	http.StatusBadRequest:            operator.InvalidBody,
	http.StatusRequestTimeout:        operator.RequestTimeout,
	http.StatusRequestEntityTooLarge: operator.BodyTooLarge,
	http.StatusUnsupportedMediaType:  operator.UnsupportedMedia,
	http.StatusUnprocessableEntity:   operator.InvalidRequest,
}

func fromModel(model *huma.ErrorModel) *operator.Problem {
	code, ok := codeOfStatus[model.Status]
	if !ok {
		code = operator.Internal
	}
	p := operator.NewProblem(code, "", nil)
	if code == operator.Internal {
		return p
	}
	for _, e := range model.Errors {
		if e == nil {
			continue
		}
		if field := fieldOf(e); !slices.Contains(p.Errors, field) {
			p.Errors = append(p.Errors, field)
		}
	}
	if code == operator.InvalidBody && len(p.Errors) == 0 { // the only one without a field of its own
		p.Errors = []operator.FieldError{{Location: "body", Message: "is empty; send a JSON object"}}
	}
	return p
}

// What huma says of a reason that is empty, or holds nothing but blanks.
var (
	tooShort = fmt.Sprintf(validation.MsgExpectedMinLength, 1)
	blank    = fmt.Sprintf(validation.MsgExpectedBePattern, notBlank)
)

// notBlank describes the pattern of a reason, see its tag.
const notBlank = "more than blanks"

// fieldOf names a missing field by itself, where huma names what it is missing
// from, says of a blank text what is wrong with it, and leaves the value out.
func fieldOf(e *huma.ErrorDetail) operator.FieldError {
	if name, ok := strings.CutPrefix(e.Message, "expected required property "); ok {
		if name, ok = strings.CutSuffix(name, " to be present"); ok {
			return operator.FieldError{Location: e.Location + "." + name, Message: "is required"}
		}
	}
	if e.Message == tooShort || e.Message == blank {
		return operator.FieldError{Location: e.Location, Message: "is required and must not be blank: say why"}
	}
	return operator.FieldError{Location: e.Location, Message: e.Message}
}

// write answers outside huma.
func write(w http.ResponseWriter, p *operator.Problem) {
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}
