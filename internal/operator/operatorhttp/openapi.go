package operatorhttp

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/onceward/onceward/internal/operator"
)

const bearer = "bearer"

// spec is the OpenAPI document in both spellings.
type spec struct{ json, yaml []byte }

func describe(api *huma.OpenAPI) {
	api.Info.Description = "What people may do about agent tool calls whose outcome needs somebody. " +
		"Tenant, actor and scopes come from the authorizer's claims. Every error is a problem document with a stable code, see problems.md."
	api.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		bearer: {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "Claims: sub (the actor), custom:tenant (absent where there are no tenants), scope."},
	}
}

// document adds what the code of an operation does not say by itself.
func document(op *huma.Operation, scope operator.Scope) {
	if op.Tags == nil {
		op.Tags = []string{"tool-executions"}
	}
	op.Security = []map[string][]string{{bearer: {}}}
	op.Extensions = map[string]any{"x-required-scope": string(scope)}
	op.Responses = map[string]*huma.Response{}
	for _, status := range statuses(op.Method) {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: meaning(status),
			Content:     map[string]*huma.MediaType{problemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}},
		}
	}
}

// statuses that an operation can answer a problem with.
func statuses(method string) []int {
	both := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusServiceUnavailable}
	if method == http.MethodPost {
		both = append(both, http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusBadGateway)
	}
	slices.Sort(both)
	return both
}

func meaning(status int) string {
	var words []string
	for _, info := range operator.Codes() {
		if info.Status == status {
			words = append(words, string(info.Code))
		}
	}
	return http.StatusText(status) + ": " + strings.Join(words, ", ")
}

func documentOf(api huma.API) (spec, error) {
	schemas := api.OpenAPI().Components.Schemas
	problem := schemas.Schema(reflect.TypeFor[operator.Problem](), true, "Problem")
	if problem.Ref != "#/components/schemas/Problem" {
		return spec{}, fmt.Errorf("operatorhttp: the problem's schema is %s", problem.Ref)
	}
	delete(schemas.Map(), "ErrorModel") // huma's own, which is never answered
	delete(schemas.Map(), "ErrorDetail")
	for name, schema := range schemas.Map() {
		if !strings.HasSuffix(name, "InputBody") && name != "RunInput" {
			schema.AdditionalProperties = nil // answers may grow
		}
	}
	asJSON, err := api.OpenAPI().MarshalJSON()
	if err != nil {
		return spec{}, fmt.Errorf("operatorhttp: OpenAPI: %w", err)
	}
	asYAML, err := api.OpenAPI().YAML()
	if err != nil {
		return spec{}, fmt.Errorf("operatorhttp: OpenAPI: %w", err)
	}
	return spec{json: asJSON, yaml: asYAML}, nil
}

// OpenAPI returns the API's OpenAPI 3.1 document as YAML.
func OpenAPI() ([]byte, error) {
	document, err := documentOf((&server{}).register(http.NewServeMux()))
	return document.yaml, err
}

// Problems returns the reference page of the problem codes as Markdown.
func Problems() []byte {
	var page strings.Builder
	page.WriteString("# Problem codes\n\n<!-- Generated from internal/operator by go generate; do not edit. -->\n\n" +
		"Every error of the operator's API is an RFC 9457 problem document (`application/problem+json`). Its `type` is\n" +
		"`urn:onceward:problem:<code>`; `code` never changes its meaning.\n\n" +
		"| status | code | title | what it means |\n| --- | --- | --- | --- |\n")
	for _, info := range operator.Codes() {
		page.WriteString("| " + strconv.Itoa(info.Status) + " | `" + string(info.Code) + "` | " + info.Title + " | " + info.Means + " |\n")
	}
	return []byte(page.String())
}
