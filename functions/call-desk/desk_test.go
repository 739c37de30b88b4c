package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

var (
	call  = ledger.Key{Tenant: "acme", RunID: "run-7Q", CallID: "toolu_01"}
	start = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
)

// bell answers tokens by the documented rules, or fails as told.
type bell struct {
	mu   sync.Mutex
	rung []string
	err  error
}

func (b *bell) SendTaskSuccess(_ context.Context, in *sfn.SendTaskSuccessInput, _ ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = append(b.rung, aws.ToString(in.TaskToken))
	return &sfn.SendTaskSuccessOutput{}, b.err
}

type rig struct {
	t     *testing.T
	store *memledger.Store
	bell  *bell
	desk  *Desk
	logs  bytes.Buffer
	now   time.Time
}

func newRig(t *testing.T) *rig {
	t.Helper()
	store, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, store: store, bell: &bell{}, now: start.Add(30 * time.Second)}
	r.desk = &Desk{Store: store, Bell: r.bell, Now: func() time.Time { return r.now }, NewID: rand.Text, Log: slog.New(slog.NewJSONHandler(&r.logs, nil))}
	return r
}

func stamp() ledger.Stamp { return ledger.Stamp{At: start, WriteID: rand.Text()} }

func (r *rig) apply(t *testing.T) func(ledger.Move, error) ledger.Record {
	t.Helper()
	return func(m ledger.Move, err error) ledger.Record {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		rec, err := r.store.Apply(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
}

// started writes down a call whose executor has until a minute after start.
func (r *rig) started(t *testing.T) ledger.Record {
	t.Helper()
	deadline := start.Add(time.Minute)
	return r.apply(t)(ledger.Record{}.Start(stamp(), ledger.Call{Key: call, Tool: "issue_credit", Turn: 3, Fingerprint: "f"},
		ledger.Executor{Token: "token", Attempt: 1, Deadline: deadline, QuietAfter: deadline}))
}

func (r *rig) settled(t *testing.T, what ledger.Settlement) ledger.Record {
	t.Helper()
	return r.apply(t)(r.started(t).Settle(stamp(), "token", what))
}

func event(t *testing.T, file string, edits ...string) json.RawMessage {
	t.Helper()
	body, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return json.RawMessage(strings.NewReplacer(edits...).Replace(string(body)))
}

func (r *rig) ask(t *testing.T, payload json.RawMessage) once.Answer {
	t.Helper()
	answer, err := r.desk.Handle(t.Context(), payload)
	if err != nil {
		t.Fatalf("handle: %v", err)
	}
	return answer
}

func TestEventIsAnsweredAsTheContractSays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.started(t)
	body, err := json.Marshal(r.ask(t, event(t, "event.json")))
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := errors.Join(json.Unmarshal(event(t, "answer.json"), &want), json.Unmarshal(body, &got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// Proves: R27, R29, R95
func TestInspectSaysWhatIsNextByTheRecord(t *testing.T) {
	t.Parallel()
	unknown := ledger.Settlement{Effect: ledger.Unknown, Code: "timeout"}
	round := func(n int) []string { return []string{`"round": 1`, fmt.Sprintf(`"round": %d`, n)} }
	for name, c := range map[string]struct {
		given  func(r *rig)
		edits  []string
		status once.Status
		effect ledger.Effect
		next   ledger.Next
		after  int
	}{
		"no record":                            {func(*rig) {}, nil, once.Refused, ledger.NoEffect, ledger.Again, 2},
		"its executor may be at work":          {func(r *rig) { r.started(r.t) }, nil, once.InProgress, ledger.Unknown, ledger.Again, 2},
		"its executor may be at work, later":   {func(r *rig) { r.started(r.t) }, round(4), once.InProgress, ledger.Unknown, ledger.Again, 16},
		"not past the executor's deadline":     {func(r *rig) { r.started(r.t) }, round(24), once.InProgress, ledger.Unknown, ledger.Again, 31},
		"its executor is lost":                 {func(r *rig) { r.started(r.t); r.now = start.Add(time.Hour) }, nil, once.Indeterminate, ledger.Unknown, ledger.Look, 2},
		"unknown":                              {func(r *rig) { r.settled(r.t, unknown) }, nil, once.Indeterminate, ledger.Unknown, ledger.Look, 2},
		"unknown, the look-up brought nothing": {func(r *rig) { r.settled(r.t, unknown) }, round(7), once.Indeterminate, ledger.Unknown, ledger.Park, 0},
		"unknown, nothing found, policy tell":  {func(r *rig) { r.settled(r.t, unknown) }, append(round(7), `"pause"`, `"tell"`), once.Indeterminate, ledger.Unknown, ledger.Done, 0},
		"completed":                            {func(r *rig) { r.settled(r.t, ledger.Settlement{Effect: ledger.Happened}) }, nil, once.Completed, ledger.Happened, ledger.Done, 0},
		"failed":                               {func(r *rig) { r.settled(r.t, ledger.Settlement{Effect: ledger.NoEffect, Code: "rejected"}) }, nil, once.Failed, ledger.NoEffect, ledger.Done, 0},
		"failed, might run again": {func(r *rig) {
			r.settled(r.t, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true, Code: "not_attempted"})
		}, nil, once.Failed, ledger.NoEffect, ledger.Done, 0},
		"the key is another tool's: ask it": {func(r *rig) { r.settled(r.t, ledger.Settlement{Effect: ledger.Happened}) }, []string{`"issue_credit"`, `"other"`}, once.Completed, ledger.Happened, ledger.Again, 2},
		"waits for approval": {func(r *rig) {
			r.apply(r.t)(ledger.Record{}.AskApproval(stamp(), ledger.Call{Key: call, Tool: "issue_credit", Turn: 3}, time.Hour, 1))
		}, nil, once.ApprovalRequired, ledger.NoEffect, ledger.Park, 0},
		"granted by a person": {func(r *rig) {
			r.apply(r.t)(r.settled(r.t, unknown).Resolve(stamp(), ledger.Decision{ID: "d", Actor: "ada", Reason: "looked", Version: 2}, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true}))
		}, nil, once.Failed, ledger.NoEffect, ledger.Again, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c.given(r)
			got := r.ask(t, event(t, "event.json", c.edits...))
			type said struct {
				Status once.Status
				Effect string
				Next   ledger.Next
				After  int
			}
			want := said{c.status, c.effect.String(), c.next, c.after}
			if diff := cmp.Diff(want, said{got.Status, got.Effect.String(), got.Next, got.RetryAfterSeconds}); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if got.Status != once.Completed && got.Error.Code == "" || got.Result != nil {
				t.Errorf("answer %+v lacks its code, or is not brief", got)
			}
		})
	}
}

// The event's arguments are {"account_id":"A1","amount_cents":2500}.
func TestDeskLeavesItToTheGuardWhoseArgumentsTheRecordHas(t *testing.T) {
	t.Parallel()
	const spelled = `"{\"account_id\":\"A1\",\"amount_cents\":2500}"`
	received := ledger.DigestOf([]byte(`{"account_id":"A1","amount_cents":2500}`))
	for name, c := range map[string]struct {
		received  ledger.Digest
		arguments string
		next      ledger.Next
	}{
		"the same":                    {received, spelled, ledger.Done},
		"the same in another order":   {received, `"{\"amount_cents\":2.5e3, \"account_id\":\"A1\"}"`, ledger.Done},
		"others":                      {ledger.DigestOf([]byte(`{"account_id":"OTHER","amount_cents":9999}`)), spelled, ledger.Again},
		"without a canonical form":    {received, `"{\"amount_cents\":2500,\"amount_cents\":2500}"`, ledger.Again},
		"of a record that has none":   {"", spelled, ledger.Done},
		"none, asked by the key only": {received, `""`, ledger.Done},
	} {
		r := newRig(t)
		rec := r.apply(t)(ledger.Record{}.Journal(stamp(), ledger.Call{Key: call, Tool: "issue_credit", Turn: 3, Fingerprint: "f", Received: c.received}, ledger.Settlement{Effect: ledger.Happened}))
		answer := r.ask(t, event(t, "event.json", spelled, c.arguments))
		if rec.Received != c.received || answer.Next != c.next {
			t.Errorf("%s: the record received %q, next is %s, want %s", name, rec.Received, answer.Next, c.next)
		}
	}
}

func TestCallThatWasClosedUnseenIsAnsweredFailedWhateverItsArguments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(t)(ledger.Record{}.Close(stamp(), call, ledger.Settler{Kind: ledger.ByPlanner, ID: "e1"}))
	if answer := r.ask(t, event(t, "event.json")); answer.Status != once.Failed || answer.Next != ledger.Done {
		t.Errorf("answer %+v, want it failed", answer)
	}
}

// Proves: R27, R64
func TestLostExecutorIsRecordedBeforeAnythingIsSaidOfIt(t *testing.T) {
	t.Parallel()
	for _, persisted := range []bool{true, false} {
		r := newRig(t)
		r.started(t)
		r.now = start.Add(time.Hour)
		r.store.Arm(memledger.Fault{Op: memledger.Apply, Event: ledger.Orphan, Persist: persisted})
		if _, err := r.desk.Handle(t.Context(), event(t, "event.json")); !errors.Is(err, ErrUnread) {
			t.Errorf("err = %v, want ErrUnread", err)
		}
		answer := r.ask(t, event(t, "event.json"))
		rec, err := r.store.Load(t.Context(), call)
		if err != nil || rec.Status != ledger.Indeterminate || answer.Next != ledger.Look {
			t.Errorf("record is %s, %v; the answer says %s", rec.State(), err, answer.Next)
		}
	}
}

func TestExecutorThatSettlesWhileItIsGivenUpWins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rec := r.started(t)
	r.now = start.Add(time.Hour)
	r.store.OnMoment(func(m memledger.Moment) {
		if m.When == "before" && m.Step.Event == ledger.Orphan {
			r.apply(t)(rec.Settle(stamp(), "token", ledger.Settlement{Effect: ledger.Happened}))
		}
	})
	if answer := r.ask(t, event(t, "event.json")); answer.Status != once.Completed || answer.Next != ledger.Done {
		t.Errorf("answer %+v, want it completed", answer)
	}
}

func TestRoundsOutlastTheLongestExecutor(t *testing.T) {
	t.Parallel()
	rec := ledger.Record{Status: ledger.Started, Attempt: ledger.Attempt{Deadline: start.Add(15 * time.Minute)}}
	now := start
	rounds := 0
	for ; !now.After(rec.Attempt.Deadline); rounds++ {
		// The machine waits one second more, and asks the tool in between.
		now = now.Add(time.Duration(delay(ledger.Again, rec, 2*rounds, now)+1) * time.Second)
	}
	if rounds > 10 {
		t.Errorf("it takes %d answers until the executor's deadline", rounds)
	}
}

func (r *rig) waits(t *testing.T) []ledger.Wait {
	t.Helper()
	waits, err := r.store.Waits(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	return waits
}

// Proves: R119
func TestParkKeepsTheTokenWhileThereIsSomethingToDecide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.settled(t, ledger.Settlement{Effect: ledger.Unknown, Code: "timeout"})
	for range 2 { // the invocation may come twice
		r.ask(t, event(t, "park.json"))
	}
	waits := r.waits(t)
	if len(waits) != 1 || string(waits[0].Token) != "AQCEAAAAKgAAAAMAAAAAAAAAAcanary" || waits[0].Rung() || waits[0].Execution == "" {
		t.Errorf("waits %+v, want the one", waits)
	}
	if len(r.bell.rung) > 0 {
		t.Error("the run was rung although somebody has to decide")
	}
	r.ask(t, event(t, "park.json", "canary", "canary2"))
	if waits := r.waits(t); len(waits) != 2 {
		t.Errorf("a new token is a new wait, got %d", len(waits))
	}
}

// Proves: R119
func TestParkRingsAtOnceWhenNobodyHasToDecideAnyMore(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]func(r *rig){
		"completed":            func(r *rig) { r.settled(r.t, ledger.Settlement{Effect: ledger.Happened}) },
		"failed":               func(r *rig) { r.settled(r.t, ledger.Settlement{Effect: ledger.NoEffect}) },
		"its executor is back": func(r *rig) { r.started(r.t) },
		"no record":            func(*rig) {},
		"granted": func(r *rig) {
			r.apply(r.t)(r.settled(r.t, ledger.Settlement{Effect: ledger.Unknown}).Resolve(stamp(), ledger.Decision{ID: "d", Actor: "ada", Reason: "looked", Version: 2}, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			given(r)
			r.ask(t, event(t, "park.json"))
			waits := r.waits(t)
			if len(r.bell.rung) != 1 || len(waits) != 1 || !waits[0].Rung() {
				t.Errorf("rung %d times, waits %+v; want one answered wait", len(r.bell.rung), waits)
			}
		})
	}
}

// Proves: R119
func TestDecisionBetweenTheWaitAndTheReadIsNotLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rec := r.settled(t, ledger.Settlement{Effect: ledger.Unknown})
	var sawBell int
	r.store.OnMoment(func(m memledger.Moment) {
		if m.When != "before" || m.Step.Op != memledger.SaveWait {
			return
		}
		// A person decides just before the wait is stored, and sees no bell.
		r.apply(t)(rec.Resolve(stamp(), ledger.Decision{ID: "d", Actor: "ada", Reason: "looked", Version: rec.Version}, ledger.Settlement{Effect: ledger.Happened}))
		sawBell = len(r.waits(t))
	})
	r.ask(t, event(t, "park.json"))
	if sawBell != 0 || len(r.bell.rung) != 1 {
		t.Errorf("the decider saw %d bells, the desk rang %d times; want 0 and 1", sawBell, len(r.bell.rung))
	}
}

// Proves: R119
func TestParkFailsLoudlyAtEachStepThatCouldLoseTheWakeUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arm  func(r *rig)
		want error
	}{
		"the wait's answer is lost":         {func(r *rig) { r.store.Arm(memledger.Fault{Op: memledger.SaveWait, Persist: true}) }, ErrNotParked},
		"the wait is lost":                  {func(r *rig) { r.store.Arm(memledger.Fault{Op: memledger.SaveWait}) }, ErrNotParked},
		"the call can't be read":            {func(r *rig) { r.store.Arm(memledger.Fault{Op: memledger.Load}) }, ErrNotParked},
		"the bell's answer is lost":         {func(r *rig) { r.bell.err = errors.New("post token=AQCEAAAAKgAAAAMAAAAAAAAAAcanary: reset") }, ErrNotParked},
		"the wait is over: timed out":       {func(r *rig) { r.bell.err = &types.TaskTimedOut{} }, nil},
		"the wait is over: no task":         {func(r *rig) { r.bell.err = &types.TaskDoesNotExist{} }, nil},
		"the wait is over: not a token":     {func(r *rig) { r.bell.err = &types.InvalidToken{} }, nil},
		"the confirmation is lost":          {func(r *rig) { r.store.Arm(memledger.Fault{Op: memledger.ConfirmWait}) }, nil},
		"the confirmation's answer is lost": {func(r *rig) { r.store.Arm(memledger.Fault{Op: memledger.ConfirmWait, Persist: true}) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.settled(t, ledger.Settlement{Effect: ledger.Happened})
			c.arm(r)
			_, err := r.desk.Handle(t.Context(), event(t, "park.json"))
			if !errors.Is(err, c.want) {
				t.Errorf("err = %v, want %v", err, c.want)
			}
			if strings.Contains(fmt.Sprint(err), "canary") {
				t.Errorf("the error tells the token: %v", err)
			}
			r.bell.err = nil
			r.ask(t, event(t, "park.json")) // the machine parks anew
			if waits := r.waits(t); len(waits) != 1 || !waits[0].Rung() {
				t.Errorf("waits %+v, want one, answered", waits)
			}
		})
	}
}

func TestTokenThatCameWithAWrongEnvelopeIsNotLostInSilence(t *testing.T) {
	t.Parallel()
	for what, edits := range map[string][]string{
		"unknown field": {`"reply"`, `"extra": 1, "reply"`},
		"wrong mode":    {`"park"`, `"inspect"`},
		"no token":      {`"token": "AQCEAAAAKgAAAAMAAAAAAAAAAcanary",`, ``},
		"malformed id":  {`"toolu_01"`, `"a b"`},
	} {
		r := newRig(t)
		_, err := r.desk.Handle(t.Context(), event(t, "park.json", edits...))
		if !errors.Is(err, ErrNotParked) || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("%s: err = %v, want ErrNotParked without the token", what, err)
		}
	}
}

func TestWrongEnvelopesAreRefusedAndSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		edits  []string
		code   string
		effect ledger.Effect
		next   ledger.Next
	}{
		"unknown field": {[]string{`"reply"`, `"extra": 1, "reply"`}, "unknown_field", ledger.Happened, ledger.Inspect},
		"another mode":  {[]string{`"inspect"`, `"invoke"`}, "wrong_function", ledger.Happened, ledger.Inspect},
		"malformed id":  {[]string{`"toolu_01"`, `"a b"`}, "bad_id", ledger.NoEffect, ledger.Done},
		"another call":  {[]string{`"toolu_01"`, `"toolu_02"`, `"reply"`, `"extra": 1, "reply"`}, "unknown_field", ledger.NoEffect, ledger.Done},
	} {
		r := newRig(t)
		r.settled(t, ledger.Settlement{Effect: ledger.Happened})
		answer := r.ask(t, event(t, "event.json", c.edits...))
		if answer.Status != once.Refused || answer.Error.Code != c.code || answer.Effect != c.effect || answer.Next != c.next {
			t.Errorf("%s: answer %+v, want %s, effect %s, next %s", what, answer, c.code, c.effect, c.next)
		}
	}
}

func TestLedgerThatCannotBeReadIsAnErrorOfTheDesk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.store.Arm(memledger.Fault{Op: memledger.Load})
	if _, err := r.desk.Handle(t.Context(), event(t, "event.json")); !errors.Is(err, ErrUnread) {
		t.Errorf("err = %v, want ErrUnread", err)
	}
}

// Proves: R17
func TestTokensArgumentsAndKeysAreNotLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ask(t, event(t, "event.json"))
	r.settled(t, ledger.Settlement{Effect: ledger.Unknown})
	r.ask(t, event(t, "park.json"))
	logs := r.logs.String()
	for _, secret := range []string{"canary", "2500", "toolu_01"} {
		if strings.Contains(logs, secret) {
			t.Errorf("logs hold %q:\n%s", secret, logs)
		}
	}
	if !strings.Contains(logs, call.Short()) || !strings.Contains(logs, `"run":"run-7Q"`) {
		t.Errorf("logs do not name run and call:\n%s", logs)
	}
}
