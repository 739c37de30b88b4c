package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// answer is a function's response, checked and ready to be sent.
type answer struct {
	status int
	header http.Header
	body   []byte
}

var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	headerValue = regexp.MustCompile(`^[\t\x20-\x7e\x80-\x{10ffff}]*$`)
)

// parseResponse reads a response of format 2.0. JSON without a statusCode is,
// as on AWS, the body of a 200.
func parseResponse(response []byte) (answer, error) {
	var probe struct {
		StatusCode json.RawMessage `json:"statusCode"`
	}
	if !json.Valid(response) {
		return answer{}, errors.New("gateway: the response is not JSON")
	}
	if err := json.Unmarshal(response, &probe); err != nil || probe.StatusCode == nil {
		return inferred(response)
	}
	var r events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(response, &r); err != nil {
		return answer{}, fmt.Errorf("gateway: the response is malformed: %w", err)
	}
	if r.StatusCode < 200 || r.StatusCode > 599 {
		return answer{}, fmt.Errorf("gateway: statusCode %d is not that of a final answer", r.StatusCode)
	}
	header, err := responseHeader(r)
	if err != nil {
		return answer{}, err
	}
	out := answer{status: r.StatusCode, header: header, body: []byte(r.Body)}
	if r.IsBase64Encoded {
		if out.body, err = base64.StdEncoding.DecodeString(r.Body); err != nil {
			return answer{}, fmt.Errorf("gateway: the body is not base64: %w", err)
		}
	}
	return out, nil
}

// inferred is the answer for JSON that is not a response: a string's text, or the JSON itself.
func inferred(response []byte) (answer, error) {
	body := bytes.TrimSpace(response)
	var text string
	if body[0] == '"' {
		if err := json.Unmarshal(body, &text); err != nil {
			return answer{}, fmt.Errorf("gateway: the response is malformed: %w", err)
		}
		body = []byte(text)
	}
	return answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: body}, nil
}

// responseHeader joins the three places a response can name headers in; of one
// name in both, multiValueHeaders counts.
func responseHeader(r events.APIGatewayV2HTTPResponse) (http.Header, error) {
	all := make(map[string][]string, len(r.Headers)+len(r.MultiValueHeaders)+1)
	for name, value := range r.Headers {
		all[http.CanonicalHeaderKey(name)] = []string{value}
	}
	for name, values := range r.MultiValueHeaders {
		all[http.CanonicalHeaderKey(name)] = values
	}
	if len(r.Cookies) > 0 {
		all["Set-Cookie"] = append(all["Set-Cookie"], r.Cookies...)
	}
	out := http.Header{"Content-Type": {"text/plain;charset=UTF-8"}} // what AWS says when the function does not
	for name, values := range all {
		if err := checkHeader(name, values); err != nil {
			return nil, err
		}
		if lower := strings.ToLower(name); lower != "content-length" && !hopByHop[lower] {
			out[name] = values
		}
	}
	return out, nil
}

func checkHeader(name string, values []string) error {
	if !headerName.MatchString(name) {
		return errors.New("gateway: the response has a malformed header name")
	}
	for _, value := range values {
		if !headerValue.MatchString(value) {
			return fmt.Errorf("gateway: the response's header %s has a malformed value", name)
		}
	}
	return nil
}

func (a answer) send(w http.ResponseWriter) int {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may be gone
	return a.status
}
