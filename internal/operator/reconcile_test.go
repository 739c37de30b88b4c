package operator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

const stillUnknown = `{"onceward":1,"status":"indeterminate","error":{"code":"look_up_unknown","message":"it can't tell"}}`

func (b *bench) answers(text string) {
	b.tools.answer = func() ([]byte, error) { return []byte(text), nil }
}

// finds makes the function find the effect, as a guard does.
func (b *bench) finds(t *testing.T, r ledger.Record) {
	t.Helper()
	b.tools.answer = func() ([]byte, error) {
		move, err := b.stored(t, r).Look(b.stamp("look"), b.now, false, ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_9"})
		b.apply(t, move, err)
		return []byte(`{"onceward":1,"status":"completed","error":{"code":"","message":""}}`), nil
	}
}

// Proves: R87
func TestReconcileAsksOnceWithTheStoredArgumentsAndTheRunsPrincipal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.turn(t, nil, "c0", "c1")
	b.park(t, r, "w1")
	b.answers(stillUnknown)
	got, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1", Reason: "a customer called"})
	if err != nil {
		t.Fatal(err)
	}
	clean(t, got)
	if got.Settled || got.RunWaiting != operator.StillWaiting || b.bell.times() != 0 {
		t.Errorf("settled %t, run %q, %d bells", got.Settled, got.RunWaiting, b.bell.times())
	}
	if diff := cmp.Diff(operator.LookUp{Status: "indeterminate", Code: "look_up_unknown", Message: "it can't tell"}, got.LookUp); diff != "" {
		t.Errorf("look-up (-want +got):\n%s", diff)
	}
	if len(b.tools.payloads) != 1 {
		t.Fatalf("asked %d times", len(b.tools.payloads))
	}
	var e once.Envelope
	dec := json.NewDecoder(bytes.NewReader(b.tools.payloads[0]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		t.Fatal(err)
	}
	want := once.Envelope{
		Onceward: 1, Mode: once.ModeReconcile, Tenant: "acme", Reply: once.ReplyBrief,
		Run:       once.RunPart{ID: "run-1", StartedAt: e.Run.StartedAt, Agent: "billing-assistant"},
		Call:      once.CallPart{ID: "c1", Tool: "issue_credit", Turn: 1, Attempt: 1, ArgumentsJSON: `{"account_id":"` + canaryInput + `","amount_cents":2500}`},
		Principal: once.PrincipalPart{Subject: "user-1", Permissions: []string{"credits:write"}},
	}
	if diff := cmp.Diff(want, e); diff != "" || e.Run.StartedAt.IsZero() {
		t.Errorf("envelope (-want +got):\n%s", diff)
	}
	shown, err := b.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || len(shown.Evidence) != 1 || shown.Evidence[0].By != "ada" || !strings.Contains(shown.Evidence[0].Reason, "a customer called") {
		t.Errorf("evidence %+v, %v", shown.Evidence, err)
	}
	if shown.Version != r.Version {
		t.Error("asking made people's decisions stale")
	}
}

// Proves: R92
func TestAFoundEffectSettlesTheCallAndWakesTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.turn(t, nil, "c1")
	b.park(t, r, "w1")
	b.finds(t, r)
	got, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1", ExpectedVersion: r.Version})
	if err != nil || !got.Settled || got.RunWaiting != operator.Woken || got.Record.SettledBy.Kind != "hook" || got.Record.ExternalID != "cr_9" {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"})
	if p := theProblem(t, err, operator.NothingToLookUp); p.DecidedBy.Kind != "hook" {
		t.Errorf("told %+v", p.DecidedBy)
	}
}

func TestALookUpWhoseAnswerIsLostIsReadFromTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.turn(t, nil, "c1")
	b.park(t, r, "w1")
	b.finds(t, r)
	find := b.tools.answer
	b.tools.answer = func() ([]byte, error) {
		_, _ = find()
		return nil, errors.New("connection reset")
	}
	got, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"})
	if err != nil || !got.Settled || got.RunWaiting != operator.Woken {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestReconcileIsRefusedWhereThereIsNothingToAsk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.unknown(t, "not-in-turn")
	running := b.start(t, "running")
	b.reserve(t, "reserved")
	b.turn(t, nil, "c1", "running", "reserved")
	b.answers(stillUnknown)
	ask := func(key string, version int64) error {
		_, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: key, ExpectedVersion: version})
		return err
	}
	wantProblem(t, ask("run-1:nobody", 0), operator.NotFound)
	wantProblem(t, ask("run-1:c1", r.Version+1), operator.StaleVersion)
	wantProblem(t, ask("run-1:running", 0), operator.NothingToLookUp)
	wantProblem(t, ask("run-1:reserved", 0), operator.NothingToLookUp)
	_, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1", Reason: strings.Repeat("x", operator.MaxReason+1)})
	wantProblem(t, err, operator.InvalidRequest)
	if len(b.tools.payloads) != 0 {
		t.Fatalf("asked %d times", len(b.tools.payloads))
	}
	b.now = running.Attempt.Deadline.Add(1)
	if err := ask("run-1:running", 0); err != nil || len(b.tools.payloads) != 1 {
		t.Errorf("past its deadline: asked %d times, %v", len(b.tools.payloads), err)
	}
}

func TestACallWithoutAStoredTurnIsLookedUpByItsKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.unknown(t, "c1")
	b.answers(stillUnknown)
	if _, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"}); err != nil {
		t.Fatal(err)
	}
	if payload := string(b.tools.payloads[0]); strings.Contains(payload, "arguments") || !strings.Contains(payload, `"mode":"reconcile"`) {
		t.Errorf("payload %s", payload)
	}
	b.answers(`{"onceward":1,"status":"refused","error":{"code":"missing_arguments","message":"m"}}`)
	_, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"})
	wantProblem(t, err, operator.NoArguments)
}

func TestAFunctionWithoutAnAnswerIsNotAFinding(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() ([]byte, error){
		"no answer":    func() ([]byte, error) { return nil, errors.New("timeout") },
		"garbled":      func() ([]byte, error) { return []byte(`{"onceward":1`), nil },
		"not ours":     func() ([]byte, error) { return []byte(`{"status":"completed"}`), nil },
		"no such tool": func() ([]byte, error) { return nil, toolcall.ErrNoTool },
	} {
		b := newBench(t)
		r := b.unknown(t, "c1")
		b.turn(t, nil, "c1")
		b.tools.answer = answer
		_, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"})
		want := operator.LookUpFailed
		if name == "no such tool" {
			want = operator.ToolNotConfigured
		}
		wantProblem(t, err, want)
		if after, _ := b.store.Load(t.Context(), r.Key); after.Version != r.Version {
			t.Errorf("%s: the record moved", name)
		}
	}
}
