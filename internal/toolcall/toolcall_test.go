package toolcall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

var (
	began  = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	errOff = errors.New("off")
)

// office is a run with three turns, whose tools answer what they are told to.
type office struct {
	*memruns.Store
	answer  string
	err     error
	asked   []once.Envelope
	loadErr error
	turnErr error
	log     bytes.Buffer
}

func (o *office) Load(ctx context.Context, id runs.ID) (runs.Run, error) {
	r, err := o.Store.Load(ctx, id)
	return r, errors.Join(err, o.loadErr)
}

func (o *office) Turns(ctx context.Context, id runs.ID, from, to int) ([]runs.Turn, error) {
	turns, err := o.Store.Turns(ctx, id, from, to)
	return turns, errors.Join(err, o.turnErr)
}

func (o *office) Invoke(_ context.Context, tool string, payload []byte) ([]byte, error) {
	if tool == "elsewhere" {
		return nil, toolcall.ErrNoTool
	}
	e, err := once.DecodeEnvelope(payload)
	if err != nil {
		return nil, err
	}
	o.asked = append(o.asked, e)
	return []byte(o.answer), o.err
}

func newOffice(t *testing.T) (*office, toolcall.Caller) {
	t.Helper()
	o := &office{Store: memruns.New(), answer: `{"onceward":1,"status":"completed","error":{"code":"","message":""},"next":"done"}`}
	run := runs.Run{
		Tenant: "acme", ID: "run-1", StartedAt: began, Status: runs.Running, Version: 1, LastWrite: "w",
		Input: json.RawMessage(`{"run_id":"run-1","tenant":"acme","principal":{"subject":"user-1","permissions":["credits:write"]}}`),
	}
	if _, err := o.Save(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for n, id := range []string{"c1", "c2", "c3"} {
		turn := runs.Turn{Number: n + 1, Calls: []runs.Call{{ID: id, Tool: "issue_credit", Arguments: `{"cents":` + id[1:] + `}`}, {ID: "x", Tool: "other", Arguments: `{}`}}}
		if _, err := o.PutTurn(t.Context(), run.Key(), turn); err != nil {
			t.Fatal(err)
		}
	}
	return o, toolcall.Caller{Functions: o, Runs: o, Log: slog.New(slog.NewTextHandler(&o.log, nil))}
}

func record(id string, turn, attempt int) ledger.Record {
	return ledger.Record{
		Key: ledger.Key{Tenant: "acme", RunID: "run-1", CallID: id}, Tool: "issue_credit", Agent: "billing-assistant", Turn: turn,
		Status: ledger.Indeterminate, Attempt: ledger.Attempt{Number: attempt}, Undo: ledger.Undo{N: 3},
	}
}

func TestALookUpAndAnUndoAreAskedWithTheStoredArgumentsAndTheRunsPrincipal(t *testing.T) {
	t.Parallel()
	o, c := newOffice(t)
	want := once.Envelope{
		Onceward: 1, Mode: once.ModeReconcile, Tenant: "acme", Reply: once.ReplyBrief,
		Run:       once.RunPart{ID: "run-1", StartedAt: began, Agent: "billing-assistant"},
		Call:      once.CallPart{ID: "c2", Tool: "issue_credit", Turn: 2, Attempt: 4, ArgumentsJSON: `{"cents":2}`},
		Principal: once.PrincipalPart{Subject: "user-1", Permissions: []string{"credits:write"}},
	}
	if _, err := c.Reconcile(t.Context(), record("c2", 2, 4)); err != nil {
		t.Fatal(err)
	}
	undo := want
	undo.Mode, undo.Call.ID, undo.Call.Attempt = once.ModeCompensate, "c2~undo3", 1
	if _, err := c.Compensate(t.Context(), record("c2", 2, 4), 3, ledger.Record{}); err != nil {
		t.Fatal(err)
	}
	granted := undo
	granted.Call.Attempt = 2 // the one that was: only the grant lets another begin
	if _, err := c.Compensate(t.Context(), record("c2", 2, 4), 3, record("c2~undo3", 2, 2)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]once.Envelope{want, undo, granted}, o.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestArgumentsOfAnotherCallAreNeverSent(t *testing.T) {
	t.Parallel()
	o, c := newOffice(t)
	elsewhere := record("x", 1, 1) // there is a call of that id, of another tool
	for _, r := range []ledger.Record{record("c2", 1, 1), record("c9", 2, 1), elsewhere, record("c2", 0, 1), record("c2", 9, 1)} {
		if _, err := c.Reconcile(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if e := o.asked[len(o.asked)-1]; e.Call.ArgumentsJSON != "" || e.Call.ID != r.Key.CallID {
			t.Errorf("%s of turn %d: %+v", r.Key, r.Turn, e.Call)
		}
	}
}

func TestNothingIsAskedOnWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, break1 := range map[string]func(*office){
		"the turn": func(o *office) { o.turnErr = errOff },
		"the run":  func(o *office) { o.loadErr = errOff },
	} {
		o, c := newOffice(t)
		break1(o)
		_, lookErr := c.Reconcile(t.Context(), record("c1", 1, 1))
		_, undoErr := c.Compensate(t.Context(), record("c1", 1, 1), 1, ledger.Record{})
		for _, err := range []error{lookErr, undoErr} {
			if !errors.Is(err, toolcall.ErrUnread) || !errors.Is(err, errOff) || errors.Is(err, toolcall.ErrNoAnswer) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(o.asked) != 0 {
			t.Errorf("%s: asked %d times", name, len(o.asked))
		}
	}
}

func TestWhatCanNeverBeReadIsAskedForWithout(t *testing.T) {
	t.Parallel()
	o, c := newOffice(t)
	o.turnErr, o.loadErr = runs.ErrCorrupt, runs.ErrCorrupt
	if _, err := c.Compensate(t.Context(), record("c1", 1, 1), 1, ledger.Record{}); err != nil {
		t.Fatal(err)
	}
	if e := o.asked[0]; e.Call.ID != "c1~undo1" || e.Principal.Subject != "" {
		t.Errorf("asked %+v", e)
	}
}

func TestARunThatNamesNoPrincipalIsAskedForWithoutOne(t *testing.T) {
	t.Parallel()
	o, c := newOffice(t)
	r := record("c1", 1, 1)
	r.Key.RunID = "gone"
	if _, err := c.Reconcile(t.Context(), r); err != nil || o.asked[0].Principal.Subject != "" || !strings.Contains(o.log.String(), r.Key.Short()) {
		t.Errorf("%v, log %q", err, &o.log)
	}
	c.Log = nil
	if _, err := c.Reconcile(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoAnswerSaysNothing(t *testing.T) {
	t.Parallel()
	o, c := newOffice(t)
	for _, answer := range []string{``, `null`, `[]`, `{"onceward":2,"status":"completed"}`, `{"onceward":1}`, `{"status":"completed"}`, `"completed"`} {
		o.answer = answer
		if got, err := c.Reconcile(t.Context(), record("c1", 1, 1)); !errors.Is(err, toolcall.ErrNoAnswer) || got != (toolcall.Answer{}) {
			t.Errorf("%q: %+v, %v", answer, got, err)
		}
	}
	o.err = errOff
	if _, err := c.Reconcile(t.Context(), record("c1", 1, 1)); !errors.Is(err, toolcall.ErrNoAnswer) || !errors.Is(err, errOff) {
		t.Errorf("%v", err)
	}
	r := record("c1", 1, 1)
	r.Tool = "elsewhere"
	if _, err := c.Reconcile(t.Context(), r); !errors.Is(err, toolcall.ErrNoTool) || errors.Is(err, toolcall.ErrNoAnswer) {
		t.Errorf("%v", err)
	}
}

func TestOnlyARefusalForGoodIsOne(t *testing.T) {
	t.Parallel()
	o, c := newOffice(t)
	for answer, want := range map[string]bool{
		`"status":"refused","next":"done"`:        true,
		`"status":"conflict","next":"done"`:       true,
		`"status":"expired","next":"done"`:        true,
		`"status":"refused","next":"again"`:       false, // it was short of time
		`"status":"refused","next":"inspect"`:     false, // a write may be on its way
		`"status":"failed","next":"done"`:         false,
		`"status":"completed","next":"done"`:      false,
		`"status":"indeterminate","next":"park"`:  false,
		`"status":"in_progress","next":"again"`:   false,
		`"status":"something new","next":"done"`:  false,
		`"status":"compensated","next":"done"`:    false,
		`"status":"approval_required","next":"x"`: false,
	} {
		o.answer = `{"onceward":1,` + answer + `,"error":{"code":"c","message":"m"}}`
		got, err := c.Compensate(t.Context(), record("c1", 1, 1), 1, ledger.Record{})
		if err != nil || got.Refused() != want || got.Code != "c" || got.Message != "m" {
			t.Errorf("%s: %+v, %v", answer, got, err)
		}
	}
}

func TestAToolIsDescribedByItsFunction(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	o, c := newOffice(t)
	for answer, want := range map[string]struct {
		undo *bool
		err  error
	}{
		`{"onceward":1,"tools":[{"name":"other"},{"name":"issue_credit","undo":true,"arguments":{}}]}`: {&yes, nil},
		`{"onceward":1,"tools":[{"name":"issue_credit","undo":false}]}`:                                {&no, nil},
		`{"onceward":1,"tools":[{"name":"issue_credit"}]}`:                                             {nil, nil},
		`{"onceward":1,"tools":[]}`:                                                                    {nil, toolcall.ErrNotServed},
		`{"onceward":1}`:                                                                               {nil, toolcall.ErrNoAnswer},
		`{"onceward":2,"tools":[{"name":"issue_credit"}]}`:                                             {nil, toolcall.ErrNoAnswer},
		`{"onceward":1,"tools":{}}`:                                                                    {nil, toolcall.ErrNoAnswer},
	} {
		o.answer = answer
		got, err := c.Describe(t.Context(), "issue_credit")
		if !errors.Is(err, want.err) || want.err == nil && err != nil || !cmp.Equal(got.Undo, want.undo) {
			t.Errorf("%s: %+v, %v", answer, got, err)
		}
	}
	if _, err := c.Describe(t.Context(), "elsewhere"); !errors.Is(err, toolcall.ErrNoTool) {
		t.Errorf("%v", err)
	}
	if e := o.asked[0]; e.Mode != once.ModeDescribe {
		t.Errorf("asked %+v", e)
	}
}

// A real guard's manifest is understood.
func TestTheGuardsOwnManifestSaysWhichToolsCanUndo(t *testing.T) {
	t.Parallel()
	o, c := newOffice(t)
	text, err := json.Marshal(once.Manifest{Onceward: once.EnvelopeVersion, Tools: []once.ManifestTool{{Name: "a", Undo: true}, {Name: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	o.answer = string(text)
	for name, want := range map[string]bool{"a": true, "b": false} {
		if got, err := c.Describe(t.Context(), name); err != nil || got.Undo == nil || *got.Undo != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
