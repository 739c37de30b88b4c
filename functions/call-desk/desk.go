package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/internal/doorbell/sfnbell"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// Store is what the desk reads and writes: records, and the waits of parked
// runs.
type Store interface {
	ledger.Store
	ledger.Waits
}

// Desk reads the ledger for a state machine whose answer was lost or proves
// nothing, and parks runs. It never runs a tool.
type Desk struct {
	Store Store
	Bell  sfnbell.Client
	Now   func() time.Time
	NewID func() string // fresh and random, names a write
	Log   *slog.Logger
}

var (
	// ErrNotParked means that the task token was not kept: whoever parks has to
	// try again, or nobody would ever ring.
	ErrNotParked = errors.New("call-desk: not parked")
	// ErrUnread means that the ledger could not be asked. Nothing is known.
	ErrUnread = errors.New("call-desk: ledger can't be read")
)

// Handle answers one envelope. An outcome is never an error; an error means
// that the desk could not do its work and should be asked again.
func (d *Desk) Handle(ctx context.Context, payload json.RawMessage) (once.Answer, error) {
	e, err := once.DecodeEnvelope(payload)
	if err != nil {
		if holdsToken(e, payload) {
			return once.Answer{}, fmt.Errorf("%w: %w", ErrNotParked, err)
		}
		return once.RefusalAnswer(ctx, d.Store, err), nil
	}
	switch e.Mode {
	case once.ModeInspect:
		return d.inspect(ctx, e)
	case once.ModePark:
		return d.park(ctx, e)
	case once.ModeInvoke, once.ModeReconcile, once.ModeClose, once.ModeCompensate, once.ModeDescribe:
	}
	return once.RefusalAnswer(ctx, d.Store, &once.Error{Report: once.Report{
		Key: e.Key(), Tool: e.Call.Tool, Status: once.Refused, Code: "wrong_function", Message: "the call desk only inspects and parks",
	}}), nil
}

// holdsToken reports whether somebody waits on what was not understood.
func holdsToken(e once.Envelope, payload json.RawMessage) bool {
	var raw struct {
		Mode  json.RawMessage `json:"mode"`
		Token json.RawMessage `json:"token"`
	}
	_ = json.Unmarshal(payload, &raw) // what can't be read holds no token that we could see
	return e.Mode == once.ModePark || string(raw.Mode) == `"park"` || raw.Token != nil
}

// lookRounds is how many rounds of a call may pass before the desk takes a
// look-up that brought no answer for one that never will.
const lookRounds = 6

// inspect says what is next, by the record as it stands.
func (d *Desk) inspect(ctx context.Context, e once.Envelope) (once.Answer, error) {
	rec, err := d.Store.Load(ctx, e.Key())
	if err != nil {
		return once.Answer{}, unread(e, err)
	}
	rec, err = d.orphan(ctx, rec)
	if err != nil {
		return once.Answer{}, unread(e, err)
	}
	now := d.Now()
	rec.Key = e.Key()
	answer := once.AnswerOf(rec, now, e.From.Round <= lookRounds, e.Policy.OnIndeterminate)
	if answer.Tool == "" {
		answer.Tool = e.Call.Tool
	}
	if belongsToAnother(rec, e) {
		answer.Next = ledger.Again // the guard says so by its own words
	}
	answer.RetryAfterSeconds = delay(answer.Next, rec, e.From.Round, now)
	d.log(ctx, "call inspected", e, slog.String("state", rec.State().String()), slog.String("next", string(answer.Next)))
	return answer, nil
}

// orphan gives up on an executor whose hard deadline has passed.
func (d *Desk) orphan(ctx context.Context, rec ledger.Record) (ledger.Record, error) {
	move, err := rec.Orphan(ledger.Stamp{At: d.Now(), WriteID: d.NewID()})
	if errors.Is(err, ledger.ErrNotAllowed) {
		return rec, nil // not started, or its executor may still be at work
	} else if err != nil {
		return rec, err
	}
	// Stored now: the outcome is unknown, and the call is listed. If we stop here
	// the next inspection finds it so and sends the machine to the look-up.
	stands, err := d.Store.Apply(ctx, move)
	if errors.Is(err, ledger.ErrStale) {
		return stands, nil // somebody knows better
	}
	return stands, err
}

// belongsToAnother reports whether the record is not of this call, or not of
// these arguments. Whether they come to the same all the same, as with a default
// that was left out, only the tool's own guard can say.
func belongsToAnother(rec ledger.Record, e once.Envelope) bool {
	if rec.Tool == "" { // closed unseen
		return false
	}
	arguments := cmp.Or(e.Call.ArgumentsJSON, string(e.Call.Arguments))
	return rec.Tool != e.Call.Tool || rec.Turn != e.Call.Turn || arguments != "" && !runs.SameArguments(rec, arguments)
}

// delay grows with the round, so that a call's bounded rounds outlast the
// longest executor; it never goes past the moment at which more is known.
func delay(next ledger.Next, rec ledger.Record, round int, now time.Time) int {
	grown := 1 << min(max(round, 0), 8)
	switch next {
	case ledger.Again:
		if rec.Status != ledger.Started {
			return min(grown, 60)
		}
		left := rec.Attempt.Deadline.Sub(now)
		return max(min(grown, int(left/time.Second)+1), 1)
	case ledger.Look, ledger.Inspect:
		return min(grown, 60)
	case ledger.Done, ledger.Park:
	}
	return 0
}

// park keeps the task token, and answers it at once if nobody has to decide.
func (d *Desk) park(ctx context.Context, e once.Envelope) (once.Answer, error) {
	wait := ledger.Wait{Key: e.Key(), ID: waitID(e.Token), Token: e.Token, Execution: e.From.Execution, ParkedAt: d.Now()}
	// Stored now: the doorbell. If we stop here, the task fails and is parked
	// anew; whoever settles the call rings this bell too, in vain.
	if err := d.Store.SaveWait(ctx, wait); err != nil {
		return once.Answer{}, fmt.Errorf("%w: call %s: %w", ErrNotParked, e.Key().Short(), err)
	}
	// Read after the wait is stored: whoever settled the call before saw no bell.
	rec, err := d.Store.Load(ctx, e.Key())
	if err != nil {
		return once.Answer{}, fmt.Errorf("%w: %w", ErrNotParked, unread(e, err))
	}
	rec.Key = e.Key()
	answer := once.AnswerOf(rec, d.Now(), false, e.Policy.OnIndeterminate)
	if answer.Next == ledger.Park {
		d.log(ctx, "run parked", e, slog.String("state", rec.State().String()))
		return answer, nil
	}
	return answer, d.ring(ctx, e, wait)
}

// ring answers the token of a wait that nobody has to end.
func (d *Desk) ring(ctx context.Context, e once.Envelope, wait ledger.Wait) error {
	how := doorbell.Rung
	if err := sfnbell.New(d.Bell).Ring(ctx, wait.Token); err != nil {
		gone, isGone := errors.AsType[*doorbell.GoneError](err)
		if !isGone {
			return fmt.Errorf("%w: call %s: %w", ErrNotParked, e.Key().Short(), err)
		}
		how = gone.How
	}
	// Stored now: that the bell was answered. If we stop here it is answered once
	// more by whoever finds it, in vain; so an error is no reason to park anew.
	if err := d.Store.ConfirmWait(ctx, wait, how, d.Now()); err != nil {
		d.Log.LogAttrs(ctx, slog.LevelWarn, "wait not confirmed", slog.String("key_hash", e.Key().Short()), slog.Any("error", err))
	}
	d.log(ctx, "run went on at once", e, slog.String("how", how))
	return nil
}

// waitID is the same for the same token, so that a repeated invocation stores
// no second wait. It does not give the token away.
func waitID(token ledger.Secret) string {
	sum := sha256.Sum256([]byte(token))
	return base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
}

func unread(e once.Envelope, err error) error {
	return fmt.Errorf("%w: call %s: %w", ErrUnread, e.Key().Short(), err)
}

func (d *Desk) log(ctx context.Context, message string, e once.Envelope, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("run", e.Run.ID), slog.Int("turn", e.Call.Turn), slog.String("key_hash", e.Key().Short()), slog.Int("round", e.From.Round))
	d.Log.LogAttrs(ctx, slog.LevelInfo, message, attrs...)
}
