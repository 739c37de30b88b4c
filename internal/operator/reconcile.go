package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// Inquiry asks a call's look-up what became of it. Reason and ExpectedVersion
// may be left out: asking decides nothing.
type Inquiry struct {
	Key             string
	Reason          string
	ExpectedVersion int64 // 0 for any
}

// Reconciled is what an inquiry is answered with.
type Reconciled struct {
	Record     Record     `json:"record" doc:"As it stands after the look-up"`
	LookUp     LookUp     `json:"look_up"`
	Settled    bool       `json:"settled" doc:"Whether the call does not need a look-up or a person any more"`
	RunWaiting RunWaiting `json:"run_waiting" enum:"woken,not waiting,no longer waiting,not woken yet,still waiting for a decision" doc:"What became of the parked run. One that is not woken yet is woken by any further request on the call, such as reconcile."`
}

// LookUp is what the tool's function answered.
type LookUp struct {
	Status  string `json:"status" doc:"How the function answered, such as completed or indeterminate"`
	Code    string `json:"code,omitempty" doc:"Why, in one stable word of errors.md: look_up_unknown if it could not tell, look_up_absent if it found nothing, which proves nothing yet"`
	Message string `json:"message,omitempty"`
}

// Reconcile invokes the tool's function once in mode reconcile, which can only
// read, and answers from the ledger. If that settled the call, its run is woken;
// so is the run of a call that there is nothing to look up for any more.
// Problems: [NotFound], [StaleVersion], [NothingToLookUp], [NoArguments],
// [ToolNotConfigured], [LookUpFailed]: nothing was changed.
func (s *Service) Reconcile(ctx context.Context, id Identity, in Inquiry) (Reconciled, error) {
	if err := id.May(DecideCalls); err != nil {
		return Reconciled{}, err
	}
	if len(in.Reason) > MaxReason {
		var wrong invalid
		wrong.add("body.reason", fmt.Sprintf("is longer than %d bytes", MaxReason))
		return Reconciled{}, wrong.problem()
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	key, err := keyOf(id, in.Key)
	if err != nil {
		return Reconciled{}, err
	}
	before, err := s.load(ctx, key)
	if err != nil {
		return Reconciled{}, err
	}
	if in.ExpectedVersion != 0 && in.ExpectedVersion != before.Version {
		return Reconciled{}, s.rung(ctx, before, s.conflict(before, in.ExpectedVersion, true))
	}
	if !s.canLook(before) {
		p := problem(NothingToLookUp, standing(before))
		p.Record, p.DecidedBy = viewOf(before, s.cfg.Now()), winner(before)
		return Reconciled{}, s.rung(ctx, before, p)
	}
	payload, err := s.envelope(ctx, before)
	if err != nil {
		return Reconciled{}, err
	}
	asked := s.cfg.Now()
	looked, invokeErr := s.invoke(ctx, before.Tool, payload)
	switch {
	case errors.Is(invokeErr, ErrNoTool):
		return Reconciled{}, s.rung(ctx, before, problem(ToolNotConfigured, "").because(invokeErr))
	case looked.Code == needsArguments:
		return Reconciled{}, s.rung(ctx, before, problem(NoArguments, ""))
	}
	s.noteAsked(ctx, id, before, in.Reason)
	after, err := s.load(ctx, key)
	if p, ok := errors.AsType[*Problem](err); ok && p.Code == Unavailable {
		return Reconciled{}, problem(OutcomeUnknown, "the look-up was asked, and what it found could not be read").because(err)
	} else if err != nil {
		return Reconciled{}, err
	}
	if invokeErr != nil && after.Version == before.Version {
		p := problem(LookUpFailed, standing(after)).because(invokeErr)
		p.Record = viewOf(after, s.cfg.Now())
		return Reconciled{}, s.rung(ctx, after, p)
	}
	ctx, stop := outliving(ctx)
	defer stop()
	return Reconciled{Record: *viewOf(after, s.cfg.Now()), LookUp: looked, Settled: !s.canLook(after), RunWaiting: s.wake(ctx, after, asked)}, nil
}

// needsArguments is how a function refuses a look-up that can't be made by key.
const needsArguments = "missing_arguments"

// canLook reports whether a look-up is the call's next step.
func (s *Service) canLook(r ledger.Record) bool {
	return r.Next(s.cfg.Now(), true, ledger.Pause) == ledger.Look
}

// envelope asks with the arguments of the stored turn, since the ledger holds
// only their fingerprint, and on behalf of the run's own principal: a look-up is
// authorised as the call was.
func (s *Service) envelope(ctx context.Context, r ledger.Record) ([]byte, error) {
	turn, err := s.turn(ctx, r)
	if err != nil {
		return nil, problem(Unavailable, "the call's turn could not be read").because(err)
	}
	call := once.CallPart{ID: r.Key.CallID, Tool: r.Tool, Turn: r.Turn, Attempt: max(r.Attempt.Number, 1)}
	if i := slices.IndexFunc(turn.Calls, func(c runs.Call) bool { return c.ID == call.ID && c.Tool == call.Tool }); i >= 0 {
		call.ArgumentsJSON = turn.Calls[i].Arguments
	} // without them a look-up by key still works; any other is refused by its function
	run, err := s.cfg.Runs.Load(ctx, runs.ID{Tenant: r.Key.Tenant, Run: r.Key.RunID})
	if err != nil {
		return nil, problem(Unavailable, "the call's run could not be read").because(err)
	}
	input, err := runs.ParseInput(run.Input)
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the run's input names no principal; asking without one", slog.String("key_hash", r.Key.Short()))
	}
	payload, err := json.Marshal(once.Envelope{
		Onceward: once.EnvelopeVersion, Mode: once.ModeReconcile, Tenant: r.Key.Tenant, Reply: once.ReplyBrief,
		Run:       once.RunPart{ID: r.Key.RunID, StartedAt: run.StartedAt, Agent: r.Agent},
		Call:      call,
		Principal: once.PrincipalPart{Subject: input.Subject, Permissions: input.Permissions},
	})
	if err != nil {
		return nil, problem(Internal, "").because(err)
	}
	return payload, nil
}

// noteAsked leaves who asked. It is evidence only, so a failure stops nothing.
func (s *Service) noteAsked(ctx context.Context, id Identity, r ledger.Record, reason string) {
	text := "asked for a look-up"
	if reason != "" {
		text += ": " + reason
	}
	move, err := r.Note(ledger.Stamp{At: s.cfg.Now(), WriteID: s.cfg.NewID()}, ledger.Entry{Kind: ledger.Note, By: id.Actor, Reason: text, Before: r.State().String(), After: r.State().String()})
	if err == nil {
		_, err = s.cfg.Store.Apply(ctx, move)
	}
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "note not stored", slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
	}
}

func (s *Service) invoke(ctx context.Context, tool string, payload []byte) (LookUp, error) {
	ctx, cancel := s.bounded(ctx) // what it stored is read in the time that stays
	defer cancel()
	raw, err := s.cfg.Tools.Invoke(ctx, tool, payload)
	if err != nil {
		return LookUp{Status: "no answer"}, err
	}
	var answer struct {
		Onceward int              `json:"onceward"`
		Status   string           `json:"status"`
		Error    once.AnswerError `json:"error"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Onceward != once.EnvelopeVersion || answer.Status == "" {
		return LookUp{Status: "no answer"}, fmt.Errorf("operator: the function's answer is not one of version %d: %w", once.EnvelopeVersion, errors.Join(err, ledger.ErrInvalid))
	}
	return LookUp{Status: answer.Status, Code: answer.Error.Code, Message: answer.Error.Message}, nil
}
