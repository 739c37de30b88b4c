package faults_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/localstack/faults"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a service behind a plan that remembers what it handled.
type desk struct {
	plan    *faults.Plan
	url     string
	client  *http.Client
	handled atomic.Int64
	mu      sync.Mutex
	log     []string
}

func (d *desk) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, line)
}

func (d *desk) happened() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{}
	d.plan = faults.NewPlan(faults.Options{
		Caller: func(key string) string {
			if name, ok := strings.CutPrefix(key, "AKIA"); ok {
				return name
			}
			return ""
		},
		Kill: func(key string) int {
			d.note("killed " + key)
			return 1
		},
	})
	server := httptest.NewServer(d.plan.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read body: %v", err)
		}
		d.handled.Add(1)
		d.note("handled")
		_, _ = w.Write(body)
	})))
	d.url = server.URL
	d.client = server.Client()
	t.Cleanup(server.Close)
	return d
}

func (d *desk) arm(t *testing.T, rule faults.Rule) string {
	t.Helper()
	id, err := d.plan.Arm(rule)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// send makes one request without retries; the error is a lost connection.
func (d *desk) send(t *testing.T, target, key, body string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", target)
	if key != "" {
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+key+"/20261129/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer), nil
}

const putItem = "DynamoDB_20120810.PutItem"

func TestEffectsDecideWhetherARequestIsHandledAndAnswered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		effect faults.Effect
		log    []string
	}{
		{faults.DropRequest, nil},
		{faults.DropAnswer, []string{"handled"}},
		{faults.KillCallerBefore, []string{"killed AKIAplanner"}},
		{faults.KillCallerAfter, []string{"handled", "killed AKIAplanner"}},
	} {
		t.Run(string(c.effect), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.arm(t, faults.Rule{Effect: c.effect})
			_, _, err := d.send(t, putItem, "AKIAplanner", "{}")
			if !errors.Is(err, io.EOF) {
				t.Errorf("sender saw %v, want a connection closed without an answer", err)
			}
			if diff := cmp.Diff(c.log, d.happened()); diff != "" {
				t.Errorf("what happened (-want +got):\n%s", diff)
			}
			status, answer, err := d.send(t, putItem, "AKIAplanner", "{}")
			if err != nil || status != http.StatusOK || answer != "{}" {
				t.Errorf("after the fault: %d %q %v, want the service's own answer", status, answer, err)
			}
		})
	}
}

func TestDroppedAnswerIsHandledWhollyThoughTheSenderHangsUp(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	if _, err := plan.Arm(faults.Rule{Effect: faults.DropAnswer}); err != nil {
		t.Fatal(err)
	}
	entered, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	server := httptest.NewServer(plan.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		ended <- r.Context().Err()
	})))
	defer server.Close()
	conn := dial(t, server.Listener.Addr().String())
	_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: "+putItem+"\r\nContent-Length: 0\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("handler's context ended with the sender: %v", err)
	}
}

func TestErrorIsWordedAsEachServiceDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target, path, contentType, field string
		header                           string
	}{
		{putItem, "/", "application/x-amz-json-1.0", "__type", ""},
		{"AWSStepFunctions.StartExecution", "/", "application/x-amz-json-1.0", "__type", ""},
		{"", "/2015-03-31/functions/f/invocations", "application/json", "", "Busy"},
		{"", "/v1/tool-executions/k/resolve", "application/problem+json", "code", ""},
	} {
		d := newDesk(t)
		d.arm(t, faults.Rule{Effect: faults.AnswerError, Status: 503, Code: "Busy"})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.target != "" {
			r.Header.Set("X-Amz-Target", c.target)
		}
		resp, err := d.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		err = json.NewDecoder(resp.Body).Decode(&body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 503 || resp.Header.Get("Content-Type") != c.contentType {
			t.Errorf("%s%s: %d %s %v", c.target, c.path, resp.StatusCode, resp.Header.Get("Content-Type"), err)
		}
		if c.field != "" && body[c.field] != "Busy" {
			t.Errorf("%s%s: body %v lacks the code in %q", c.target, c.path, body, c.field)
		}
		if got := resp.Header.Get("X-Amzn-ErrorType"); got != c.header {
			t.Errorf("%s%s: X-Amzn-ErrorType %q, want %q", c.target, c.path, got, c.header)
		}
		if d.handled.Load() != 0 {
			t.Errorf("%s%s: was handled", c.target, c.path)
		}
	}
}

func TestRuleAppliesToItsOwnRequestsOnly(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.arm(t, faults.Rule{
		Service: faults.DynamoDB, Operation: "PutItem", Caller: "planner", Contains: `"call-7"`,
		Effect: faults.AnswerError, Code: "Chosen",
	})
	for _, c := range []struct {
		target, key, body string
		want              int
	}{
		{"DynamoDB_20120810.GetItem", "AKIAplanner", `"call-7"`, 200},
		{"AWSStepFunctions.PutItem", "AKIAplanner", `"call-7"`, 200},
		{putItem, "AKIAtools", `"call-7"`, 200},
		{putItem, "", `"call-7"`, 200},
		{putItem, "AKIAplanner", `"call-8"`, 200},
		{putItem, "AKIAplanner", `{"id":"call-7"}`, 400},
		{putItem, "AKIAplanner", `{"id":"call-7"}`, 200},
	} {
		status, answer, err := d.send(t, c.target, c.key, c.body)
		if err != nil || status != c.want {
			t.Errorf("%+v: %d %v", c, status, err)
		}
		if status == 200 && answer != c.body {
			t.Errorf("%+v: the service read %q", c, answer)
		}
	}
}

func TestKillRuleNeverMatchesARequestFromOutside(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.arm(t, faults.Rule{Effect: faults.KillCallerAfter})
	if status, _, err := d.send(t, putItem, "OTHER", "{}"); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v", status, err)
	}
	want := []faults.ArmedRule{{Rule: faults.Rule{ID: id, Effect: faults.KillCallerAfter, Nth: 1, Times: 1}}}
	if diff := cmp.Diff(want, d.plan.Rules()); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestExactlyTheChosenNumberOfRacingRequestsIsHit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.arm(t, faults.Rule{Nth: 5, Times: 7, Effect: faults.AnswerError, Code: "Busy"})
	var refused atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			status, _, err := d.send(t, putItem, "AKIAtools", "{}")
			if err != nil {
				t.Error(err)
			}
			if status == http.StatusBadRequest {
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	d.client.CloseIdleConnections()
	if refused.Load() != 7 || d.handled.Load() != 57 {
		t.Errorf("%d refused, %d handled, want 7 and 57", refused.Load(), d.handled.Load())
	}
	rule := d.plan.Rules()[0]
	if rule.ID != id || rule.Hits != 7 || rule.Matches < 11 {
		t.Errorf("rule %+v", rule)
	}
	filter := faults.Request{Service: faults.DynamoDB, Operation: "PutItem", Caller: "tools"}
	if n := d.plan.Count(filter); n != 64 {
		t.Errorf("%d requests counted, want 64: those refused count too", n)
	}
}

// TestNthAndTimesSelectTheRequestsTheyName checks every request of a sequence
// against the sentence "from the nth match on, as often as times says, and of
// two rules the one armed first".
func TestNthAndTimesSelectTheRequestsTheyName(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := faults.NewPlan(faults.Options{})
		type want struct{ nth, times, matches, hits int }
		rules := make([]want, rapid.IntRange(0, 4).Draw(t, "rules"))
		for i := range rules {
			rules[i] = want{nth: rapid.IntRange(1, 5).Draw(t, "nth"), times: rapid.IntRange(1, 5).Draw(t, "times")}
			_, err := plan.Arm(faults.Rule{
				Nth: rules[i].nth, Times: rules[i].times, Effect: faults.AnswerError, Code: strconv.Itoa(i),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		handler := plan.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for n := range rapid.IntRange(0, 20).Draw(t, "requests") {
			hit := -1
			for i := range rules {
				if rules[i].hits == rules[i].times {
					continue
				}
				rules[i].matches++
				if hit < 0 && rules[i].matches >= rules[i].nth {
					hit = i
					rules[i].hits++
				}
			}
			r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
			r.Header.Set("X-Amz-Target", putItem)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if hit < 0 && w.Code != http.StatusOK {
				t.Fatalf("request %d was hit: %s", n, w.Body)
			}
			if hit >= 0 && !strings.Contains(w.Body.String(), fmt.Sprintf(`"__type":"%d"`, hit)) {
				t.Fatalf("request %d: want rule %d to apply, got %d %s", n, hit, w.Code, w.Body)
			}
		}
	})
}

func TestBodyIsPassedOnWholeWhateverIsSearchedInIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.arm(t, faults.Rule{Contains: "needle", Effect: faults.DropRequest})
	body := bytes.Repeat([]byte("hay "), 9<<18)
	status, answer, err := d.send(t, putItem, "", string(body))
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %v", status, err)
	}
	if !bytes.Equal([]byte(answer), body) {
		t.Errorf("the service read %d bytes of %d", len(answer), len(body))
	}
}
