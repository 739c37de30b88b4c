package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/dynamoruns"
	"github.com/onceward/onceward/internal/table"
	"github.com/onceward/onceward/localstack/dynamodb/enginetest"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Wrap(m).Run()) }

const tableName = "onceward-planner-test"

// link loses the answer of the nth write, or the write itself, and so the
// client's own retry meets what it has stored.
type link struct {
	mu        sync.Mutex
	nth, seen int
	delivered bool
}

func (l *link) RoundTrip(req *http.Request) (*http.Response, error) {
	target := req.Header.Get("X-Amz-Target")
	if !strings.HasSuffix(target, ".PutItem") && !strings.HasSuffix(target, ".UpdateItem") {
		return http.DefaultTransport.RoundTrip(req)
	}
	l.mu.Lock()
	l.seen++
	cut := l.seen == l.nth
	l.mu.Unlock()
	if cut && !l.delivered {
		return nil, errors.New("connection reset by peer")
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if cut && err == nil {
		return nil, errors.Join(errors.New("connection reset by peer"), resp.Body.Close())
	}
	return resp, err
}

func database(t *testing.T, transport http.RoundTripper) *dynamodb.Client {
	t.Helper()
	return dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(enginetest.Start(t, "dynoxide")), HTTPClient: &http.Client{Transport: transport},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	})
}

// onEngine puts the planner and the tools on the table; the planner's requests
// take the link.
func onEngine(t *testing.T, planners http.RoundTripper) *rig {
	t.Helper()
	r := newRig(t)
	direct, lossy := database(t, nil), database(t, planners)
	stored, err := dynamoruns.New(lossy, tableName, ledger.Retention{})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := dynamoledger.New(lossy, tableName, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := dynamoledger.New(direct, tableName, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.planner.Runs, r.planner.Ledger, r.calls = stored, calls, tools
	return r
}

// Proves: R36, R41
func TestRunOnARealEngineEndsTheSameWhicheverOfItsPlannersWritesIsLost(t *testing.T) {
	t.Parallel()
	if err := table.Create(t.Context(), database(t, nil), tableName); err != nil {
		t.Fatal(err)
	}
	input := func() string {
		own := script("tell", []string{"find_order", "issue_credit", "not_sent"}, []string{"refuse", "lose_answer", "nothing"})
		return strings.Replace(own, `"run-1"`, `"run-`+rand.Text()+`"`, 1)
	}
	whole := &link{}
	calm := onEngine(t, whole)
	want := calm.drive(t, input(), "e1")
	if want.Next != Succeed || len(want.Heard) != 6 {
		t.Fatalf("the run ends with %s", wire(t, want))
	}
	for nth := 1; nth <= whole.seen; nth++ {
		for _, delivered := range []bool{true, false} {
			t.Run(fmt.Sprintf("write %d of %d, stored %v", nth, whole.seen, delivered), func(t *testing.T) {
				t.Parallel()
				r := onEngine(t, &link{nth: nth, delivered: delivered})
				got := r.drive(t, input(), "e1")
				got.RunID = want.RunID
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the run ends differently (-calm +lossy):\n%s", diff)
				}
				if diff := cmp.Diff(calm.effects, r.effects); diff != "" {
					t.Errorf("effects (-calm +lossy):\n%s", diff)
				}
				if r.errors > 0 {
					t.Errorf("%d plans ended in an error; want the client's retry to get over it", r.errors)
				}
			})
		}
	}
}

// meter counts requests and the bytes of their answers.
type meter struct {
	mu    sync.Mutex
	asked map[string]int
	read  int
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	m.mu.Lock()
	defer m.mu.Unlock()
	_, operation, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	m.asked[operation]++
	m.read += len(body)
	return resp, nil
}

func (m *meter) since() (asked map[string]int, read int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked, read = m.asked, m.read
	m.asked, m.read = map[string]int{}, 0
	return asked, read
}

// Proves: R167
func TestPlanOfALateTurnMakesAsManyRequestsOfARealEngineAsThatOfAnEarlyOne(t *testing.T) {
	t.Parallel()
	if err := table.Create(t.Context(), database(t, nil), tableName); err != nil {
		t.Fatal(err)
	}
	m := &meter{asked: map[string]int{}}
	r := onEngine(t, m)
	input := strings.Replace(restarting(60), `"run-1"`, `"run-`+rand.Text()+`"`, 1)
	want := map[string]int{ // the run, its input, its open turn, two outcomes and two ids; what was heard; the turn, the run
		"GetItem": 6, "Query": 1, "UpdateItem": 1, "PutItem": 2,
	}
	var outcomes []runs.Outcome
	early, seen := 0, 0
	for range 200 {
		answer := r.plan(t, request(input, outcomes, 0, "e1"))
		asked, read := m.since()
		if answer.Next != CallTools {
			break
		}
		if call := answer.Calls[0].Envelope.Call; call.Tool == "find_order" && call.Turn > 2 {
			if early == 0 {
				early = read
			}
			if diff := cmp.Diff(want, asked); diff != "" || read > early+early/20 {
				t.Fatalf("the plan of turn %d reads %d bytes, that of turn 3 %d; requests (-want +got):\n%s", call.Turn, read, early, diff)
			}
			seen++
		}
		outcomes = r.callTools(t, answer)
	}
	if seen != 58 || len(r.effects) != 60 {
		t.Errorf("%d plans, %d effects", seen, len(r.effects))
	}
}
