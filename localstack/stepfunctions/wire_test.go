package stepfunctions

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wireCase is one request and what must come back; <any> and <seconds> stand
// for values that differ from run to run.
type wireCase struct {
	Target   string
	Request  json.RawMessage
	Status   int
	Response any
	Wait     string // let this execution end, instead of a request
}

func TestWireStoryIsAnsweredAsAWSDocuments(t *testing.T) {
	t.Parallel()
	var story []wireCase
	if err := json.Unmarshal([]byte(readFile(t, "testdata/wire/story.json")), &story); err != nil {
		t.Fatal(err)
	}
	d := &doorbell{}
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		handler := r.Handler()
		for _, c := range story {
			synctest.Wait()
			if c.Wait != "" {
				finish(t, r, c.Wait)
				continue
			}
			request := string(c.Request)
			if strings.Contains(request, "${token}") {
				request = strings.ReplaceAll(request, "${token}", d.token(0))
			}
			answer := httptest.NewRecorder()
			in := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(request))
			in.Header.Set("X-Amz-Target", "AWSStepFunctions."+c.Target)
			in.Header.Set("Content-Type", "application/x-amz-json-1.0")
			handler.ServeHTTP(answer, in)
			checkAnswer(t, c, answer)
		}
	})
}

func checkAnswer(t *testing.T, c wireCase, answer *httptest.ResponseRecorder) {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%s: %v in %s", c.Target, err, body)
	}
	if answer.Code != c.Status {
		t.Errorf("%s %s: status %d, want %d", c.Target, c.Request, answer.Code, c.Status)
	}
	if diff := cmp.Diff(c.Response, masked(got, c.Response)); diff != "" {
		t.Errorf("%s %s: %s", c.Target, c.Request, diff)
	}
	header := answer.Header()
	if len(header.Get("x-amzn-RequestId")) != 36 || header.Get("Content-Type") != "application/x-amz-json-1.0" {
		t.Errorf("%s: header %v", c.Target, header)
	}
	if kind, ok := c.Response.(map[string]any)["__type"]; ok && header.Get("x-amzn-ErrorType") != kind {
		t.Errorf("%s: error type %s", c.Target, header.Get("x-amzn-ErrorType"))
	}
}

// masked puts the placeholders of want where got has a value of their kind.
func masked(got, want any) any {
	switch w := want.(type) {
	case string:
		if w == "<any>" && got != nil {
			return w
		}
		// Time in the bubble begins in the year 2000.
		if at, ok := got.(float64); ok && w == "<seconds>" && at >= float64(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) {
			return w
		}
	case map[string]any:
		if object, ok := got.(map[string]any); ok {
			for name := range object {
				object[name] = masked(object[name], w[name])
			}
		}
	case []any:
		if list, ok := got.([]any); ok && len(list) == len(w) {
			for i := range list {
				list[i] = masked(list[i], w[i])
			}
		}
	}
	return got
}

func TestNamesFollowTheRulesOfAWS(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "run-7Q_x.y", "ä", "run-1-0a1b2c3d-g1", "a'b()=+@!", strings.Repeat("x", 80)} {
		if err := checkName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, c := range " \t\n<>{}[]?*\"#%\\^|~`$&,;:/\x00\x1f\x7f\u0085\u009f\ufffe\uffff" {
		wantAPIError(t, checkName("a"+string(c)+"b"), "InvalidName")
	}
	wantAPIError(t, checkName("a\xffb"), "InvalidName")
	wantAPIError(t, checkName(""), "ValidationException")
	wantAPIError(t, checkName(strings.Repeat("x", 81)), "ValidationException")
}

func TestInputIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	bubble(t, &scripted{}, nil, func(t *testing.T, r *Runner) {
		machine := create(t, r, passMachine)
		fits := `"` + strings.Repeat("ä", 131_071) + `"`
		finish(t, r, start(t, r, machine, "e", fits))
		_, err := r.StartExecution(StartExecutionInput{StateMachineARN: machine, Input: new(fits + " ")})
		wantAPIError(t, err, "InvalidExecutionInput")
	})
}
