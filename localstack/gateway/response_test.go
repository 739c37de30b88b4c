package gateway_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResponsesOfTheFunctionBecomeAnswers(t *testing.T) {
	t.Parallel()
	const text, jsonType = "text/plain;charset=UTF-8", "application/json"
	type want struct {
		Status int
		Header http.Header
		Body   string
	}
	header := func(pairs ...string) http.Header {
		h := http.Header{"Apigw-Requestid": {"req-1"}, "Content-Type": {text}}
		for pair := range slices.Chunk(pairs, 2) {
			if pair[0] == "Content-Type" {
				h.Del(pair[0])
			}
			h.Add(pair[0], pair[1])
		}
		return h
	}
	failed := want{500, header("Content-Type", jsonType), `{"message":"Internal Server Error"}`}
	tests := map[string]struct {
		response string
		want     want
	}{
		"status alone":          {`{"statusCode":201}`, want{201, header(), ""}},
		"headers and body":      {`{"statusCode":422,"headers":{"content-type":"application/problem+json","etag":"\"v4\""},"body":"{}"}`, want{422, header("Content-Type", "application/problem+json", "Etag", `"v4"`), "{}"}},
		"body without type":     {`{"statusCode":200,"body":"ö"}`, want{200, header(), "ö"}},
		"base64":                {`{"statusCode":200,"body":"AAH/","isBase64Encoded":true}`, want{200, header(), "\x00\x01\xff"}},
		"cookies":               {`{"statusCode":200,"cookies":["a=1; Path=/","b=2"]}`, want{200, header("Set-Cookie", "a=1; Path=/", "Set-Cookie", "b=2"), ""}},
		"many values":           {`{"statusCode":200,"multiValueHeaders":{"link":["<a>","<b>"]}}`, want{200, header("Link", "<a>", "Link", "<b>"), ""}},
		"many values win":       {`{"statusCode":200,"headers":{"X-A":"1"},"multiValueHeaders":{"x-a":["2","3"]}}`, want{200, header("X-A", "2", "X-A", "3"), ""}},
		"hop by hop":            {`{"statusCode":200,"headers":{"connection":"close","transfer-encoding":"chunked","content-length":"99"},"body":"x"}`, want{200, header(), "x"}},
		"null members":          {`{"statusCode":200,"headers":null,"multiValueHeaders":null,"cookies":null,"body":""}`, want{200, header(), ""}},
		"object without status": {`{"hello":"world"}`, want{200, header("Content-Type", jsonType), `{"hello":"world"}`}},
		"string":                {` "hello\n"`, want{200, header("Content-Type", jsonType), "hello\n"}},
		"array":                 {`[1]`, want{200, header("Content-Type", jsonType), `[1]`}},
		"null":                  {`null`, want{200, header("Content-Type", jsonType), `null`}},
		"nothing":               {``, failed},
		"not JSON":              {`{"statusCode":200`, failed},
		"status as text":        {`{"statusCode":"200"}`, failed},
		"status null":           {`{"statusCode":null}`, failed},
		"status zero":           {`{"statusCode":0}`, failed},
		"status not final":      {`{"statusCode":101}`, failed},
		"status too large":      {`{"statusCode":600}`, failed},
		"status with fraction":  {`{"statusCode":200.5}`, failed},
		"body not text":         {`{"statusCode":200,"body":{"a":1}}`, failed},
		"header not text":       {`{"statusCode":200,"headers":{"x-a":1}}`, failed},
		"bad base64":            {`{"statusCode":200,"body":"***","isBase64Encoded":true}`, failed},
		"header injection":      {`{"statusCode":200,"headers":{"x-a":"1\r\nset-cookie: b=2"}}`, failed},
		"cookie injection":      {`{"statusCode":200,"cookies":["a=1\nb"]}`, failed},
		"bad header name":       {`{"statusCode":200,"headers":{"x a":"1"}}`, failed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &function{response: test.response}
			w := answer(newGateway(t, f.invoke, options()), request(t, http.MethodGet, "/v1/runs", nil))
			got := want{w.Code, w.Header(), w.Body.String()}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}
