package once

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/onceward/onceward/middleware/ledger"
)

// invocation is one request for one call, without the tool's types. It is used
// by one goroutine and never shared.
type invocation struct {
	g           *Guard
	t           *spec
	req         Request
	key         ledger.Key
	fingerprint ledger.Digest
	received    ledger.Digest
	brief       bool // the answer holds no result, so a read has to leave it in the ledger
	encode      bool // the answer leaves the process
	unargued    bool // asked without arguments
	lookOnly    bool // asked for the look-up, so its word is the answer
	permission  string

	summarise func() string
	authorize func(context.Context) error // nil: by permission alone
	run       func(context.Context) (yield, error)
	look      func(context.Context, ledger.Record) (yield, error) // nil: none
	undo      *undoing                                            // nil: the key is no undo's

	cause error // the handler's own, or why the ledger could not be read, for observers
}

// yield is what the tool's code came up with: value is a *Out, for a caller in
// this process to whom nothing has to be encoded.
type yield struct {
	what  ledger.Settlement
	value any
}

// ending is how an invocation ended: what the answer is made of.
type ending struct {
	report Report
	result []byte // of a completed call; nil if it is not kept, or not asked for
	value  any    // the *Out of an unrecorded read
	err    error  // the store's
}

// invoke runs the call, or answers from the ledger. refused is why the request
// can't be a call of the tool, nil if it is one.
func (c *invocation) invoke(ctx context.Context, refused *Error) ending {
	return c.watched(ctx, func(ctx context.Context) ending {
		if e := c.firstFault(ctx, refused, ModeInvoke); e != nil {
			return c.refuse(ctx, e)
		}
		late := c.pastRetention()
		if late && (c.t.class != Read || !c.t.rerunExpired) {
			return c.pastReservation(ctx)
		}
		if !c.enoughTime(ctx, c.t.timeout) {
			return c.withoutTime(ctx)
		}
		if c.t.class == Read {
			return c.read(ctx)
		}
		return c.reserve(ctx)
	})
}

// watched lets the observers see f, with the store's error where the tool's code
// has none.
func (c *invocation) watched(ctx context.Context, f func(context.Context) ending) ending {
	ctx, end := c.g.observe(ctx, Call{Request: c.req, Tool: c.t.name, Class: c.t.class, Key: c.key})
	e := f(ctx)
	e.report.Tool = c.t.name
	end(e.report, cmp.Or(c.cause, e.err))
	return e
}

// firstFault returns why the request is not served, before the ledger is asked.
func (c *invocation) firstFault(ctx context.Context, refused *Error, mode Mode) *Error {
	switch {
	case c.req.RunID == "" || c.req.CallID == "":
		return refusal(c.key, codeMissingID, "run id or call id is missing")
	case c.key.Check() != nil:
		return refusal(c.key, codeBadID, "%s", c.key.Check())
	case mode == ModeInvoke && c.undo != nil:
		return refusal(c.key, codeNotSupported, "call.id: belongs to an undo, which can't be invoked")
	case mode == ModeCompensate && c.undo == nil:
		return refusal(c.key, codeBadField, "%s", notAnUndo)
	case mode == ModeCompensate && c.undo.run == nil:
		return refusal(c.key, codeNotSupported, "call.tool: can't undo")
	case c.req.Turn < 0:
		return refusal(c.key, codeBadField, "turn: is negative")
	case !c.req.Policy.Valid():
		return refusal(c.key, codeBadField, "policy: is %q, want pause, tell or fail", c.req.Policy)
	case refused != nil:
		return refused
	case mode == ModeInvoke:
		return c.authorised(ctx)
	}
	return nil
}

// authorised asks on every attempt and every replay: a key is no authorisation.
func (c *invocation) authorised(ctx context.Context) *Error {
	c.permission = "no permission needed"
	if c.t.permission != "" {
		if !slices.Contains(c.req.Permissions, c.t.permission) {
			return refusal(c.key, codeNotAuthorised, "the caller lacks the permission %s", c.t.permission)
		}
		c.permission = "has " + c.t.permission
	}
	if c.authorize != nil {
		if err := guarded(func() error { return c.authorize(ctx) }); err != nil {
			c.cause = err
			return refusal(c.key, codeNotAuthorised, "")
		}
		c.permission += "; allowed by the tool"
	}
	if c.req.Subject != "" {
		c.permission = c.req.Subject + ": " + c.permission
	}
	c.permission = ledger.Shorten(c.permission, ledger.MaxMessage)
	return nil
}

func (c *invocation) refuseArguments(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[argumentError](err); ok {
		return refusal(c.key, e.code, "%s", e.message)
	}
	return refusal(c.key, codeBadArguments, "")
}

// refuse answers a request that does nothing, with what is known of the call.
func (c *invocation) refuse(ctx context.Context, e *Error) ending {
	load := func(ctx context.Context, key ledger.Key) (ledger.Record, error) {
		rec, err := c.load(ctx, key)
		c.cause = cmp.Or(c.cause, err)
		return rec, err
	}
	return ending{report: refused(ctx, load, e), err: e.err}
}

// refuseSeen is refuse where the record is known already.
func (c *invocation) refuseSeen(rec ledger.Record, code string, cause error) ending {
	e := refusal(c.key, code, "")
	return ending{report: e.seen(rec, nil), err: cause}
}

// storeFault answers that the ledger could not be asked or told. Nothing ran.
func (c *invocation) storeFault(rec ledger.Record, readErr, cause error) ending {
	code := codeStoreDown
	if errors.Is(cause, ledger.ErrCorrupt) {
		code = codeCorrupt
	}
	e := refusal(c.key, code, "")
	r := e.seen(rec, readErr)
	r.Next = ledger.Inspect // a write may still be on its way
	return ending{report: r, err: cause}
}

// pastReservation answers a request that comes later than records are kept: it
// never reserves, since a record that says otherwise may be gone.
func (c *invocation) pastReservation(ctx context.Context) ending {
	rec, err := c.load(ctx, c.key)
	if err != nil {
		return c.storeFault(rec, err, err)
	}
	if rec.Exists() {
		return c.standing(ctx, rec, false)
	}
	r := refusal(c.key, codePastRetention, "").Report
	r.Status, r.Effect, r.Next = Expired, ledger.NoEffect, ledger.Done
	r.ModelSays = ledger.RequestSays(r.Effect, r.Message)
	return ending{report: r}
}

// withoutTime answers a request that comes with less time than the tool may
// need. What is settled is answered all the same.
func (c *invocation) withoutTime(ctx context.Context) ending {
	rec, err := c.load(ctx, c.key)
	if err != nil {
		return c.storeFault(rec, err, err)
	}
	if rec.Exists() && !rec.State().Unsettled() {
		return c.standing(ctx, rec, false)
	}
	return c.refuseSeen(rec, codeTooLittleTime, nil)
}

func (c *invocation) pastRetention() bool {
	return !c.req.RunStartedAt.IsZero() && c.g.opts.Clock().After(c.req.RunStartedAt.Add(c.g.opts.Retention.Total()))
}

// enoughTime reports whether ctx leaves need and the reserve. The deadline of a
// context is real time, whatever the guard's clock says.
func (c *invocation) enoughTime(ctx context.Context, need time.Duration) bool {
	left, limited := c.timeLeft(ctx)
	return !limited || left >= need
}

// timeLeft returns what ctx leaves beside the reserve; limited is false if it
// has no deadline.
func (c *invocation) timeLeft(ctx context.Context) (left time.Duration, limited bool) {
	deadline, limited := ctx.Deadline()
	if ctx.Err() != nil {
		return 0, true
	}
	if !limited {
		return 0, false
	}
	return time.Until(deadline) - c.g.opts.Reserve, true
}

// bounded returns ctx with at most d, and no more than it leaves beside the reserve.
func (c *invocation) bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if left, limited := c.timeLeft(ctx); limited {
		d = min(d, left)
	}
	return context.WithTimeout(ctx, d)
}

// direct reports whether the call leaves no record: a read whose result goes
// straight to its caller.
func (c *invocation) direct() bool { return c.t.class == Read && !c.t.journal && !c.brief }

func (c *invocation) stamp() ledger.Stamp {
	return ledger.Stamp{At: c.g.opts.Clock(), WriteID: rand.Text()}
}

// call is what the ledger writes down before anything runs.
func (c *invocation) call() ledger.Call {
	return ledger.Call{
		Key: c.key, Tool: c.t.name, Class: string(c.t.class), Agent: c.req.Agent, Turn: c.req.Turn,
		Fingerprint: c.fingerprint, Received: c.received, Summary: c.summarise(), Permission: c.permission,
		KeyWindow: c.t.downstream.KeyWindow,
	}
}

// foreign answers if the record says nothing of this call: it is another one's,
// or names no tool and was not closed unseen either.
func (c *invocation) foreign(rec ledger.Record) (e ending, ok bool) {
	switch {
	case rec.Exists() && rec.Tool == "" && !closedUnseen(rec):
		return c.storeFault(rec, ledger.ErrCorrupt, ledger.ErrCorrupt), true
	case c.conflicts(rec):
		return c.conflict(rec), true
	}
	return ending{}, false
}

// closedUnseen reports whether the record says only that nothing may start.
func closedUnseen(rec ledger.Record) bool {
	return rec.Status == ledger.Failed && rec.Tool == "" && rec.Outcome.Code == codeClosed
}

// conflicts reports whether the record belongs to another call. A deploy that
// adds a defaulted argument changes only the fingerprint, so both digests have
// to differ. A call that was closed unseen has neither, and no tool.
func (c *invocation) conflicts(rec ledger.Record) bool {
	if !rec.Exists() || closedUnseen(rec) {
		return false
	}
	if rec.Tool != c.t.name || rec.Turn != c.req.Turn {
		return true
	}
	return !c.unargued && rec.Fingerprint != c.fingerprint && rec.Received != c.received
}

// conflict tells which call owns the key, and nothing that it holds.
func (c *invocation) conflict(rec ledger.Record) ending {
	message := fmt.Sprintf("the key belongs to a call of %s in turn %d, %s since %s", rec.Tool, rec.Turn, rec.State(), rec.CreatedAt.UTC().Format(time.RFC3339))
	r := refusal(c.key, codeOtherCall, "%s", message).Report
	r.Status, r.Effect, r.Next = Conflict, rec.Effect(), ledger.Done
	r.Attempt, r.Since = rec.Attempt.Number, rec.Attempt.StartedAt
	r.ModelSays = ledger.RequestSays(r.Effect, r.Message)
	return ending{report: r}
}

// report says what the ledger says of the call. looked is whether the look-up
// was just asked.
func (c *invocation) report(rec ledger.Record, looked bool) Report {
	r := reportOf(rec, c.g.opts.Clock(), c.t.looks && !looked, c.req.Policy)
	r.Key = c.key
	return r
}

// recorded answers with what is stored: the result is read only for those who
// get it.
func (c *invocation) recorded(ctx context.Context, rec ledger.Record, r Report) ending {
	e := ending{report: r}
	if r.Status != Completed || rec.Outcome.Ref.NotKept {
		return e
	}
	if c.brief {
		e.report.ModelSays = "" // its sentence would need the result
		return e
	}
	if e.result = rec.Outcome.Result; e.result == nil {
		var err error
		if e.result, err = c.result(ctx, rec); err != nil {
			return c.withoutResult(e, err)
		}
	}
	if !json.Valid(e.result) {
		e.result = nil // damaged by hand; the effect stands, and its answer must be written
	}
	e.report.ModelSays = rec.ModelSays(e.result)
	return e
}

// withoutResult tells a result that is gone from one that can't be read now.
func (c *invocation) withoutResult(e ending, err error) ending {
	e.result = nil
	if errors.Is(err, ledger.ErrNotKept) {
		return e
	}
	fault := c.storeFault(ledger.Record{}, nil, err)
	fault.report.Effect, fault.report.Attempt, fault.report.Since = e.report.Effect, e.report.Attempt, e.report.Since
	fault.report.ExternalID = e.report.ExternalID
	fault.report.ModelSays = ledger.RequestSays(e.report.Effect, fault.report.Message)
	return fault
}

func requestID(ctx context.Context) string {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}
