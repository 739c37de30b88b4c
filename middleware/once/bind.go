package once

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/onceward/onceward/middleware/ledger"
)

// Bound is a tool that was checked against a guard, ready to be called in this
// process. It is safe for concurrent use.
type Bound[In, Out any] struct {
	guard *Guard
	tool  Tool[In, Out]
	spec  *spec
}

// Bind checks tool against guard. The error names every wrong field.
func Bind[In, Out any](guard *Guard, tool Tool[In, Out]) (*Bound[In, Out], error) {
	if guard == nil {
		return nil, errors.New("once: Bind: guard is nil")
	}
	s, err := tool.spec(guard)
	if err != nil {
		return nil, err
	}
	return &Bound[In, Out]{guard: guard, tool: tool, spec: s}, nil
}

// Outcome is a report with the tool's result, which [Outcome.Value] gives out
// only if the call completed.
type Outcome[Out any] struct {
	Report
	value Out
	err   error
}

// Value returns the result. The error is nil exactly if the call completed and
// its result is kept; otherwise it is an [*Error].
func (o Outcome[Out]) Value() (Out, error) { return o.value, o.err }

// Do makes one call and reports what became of it. It never panics for a panic
// of the tool, and returns only what is durable: the result is what was stored,
// read back, so that a first run and a replay return the same. Only a Read that
// is not journalled returns what Run returned. in must be a value that JSON can
// hold and give back: one with a part that its JSON does not show is refused.
// Without a deadline in ctx there is always enough time.
func (b *Bound[In, Out]) Do(ctx context.Context, req Request, in In) Outcome[Out] {
	args, err := typedArguments(b.spec, b.tool.Normalize, in)
	c := b.call(req, args)
	return b.outcome(c.invoke(ctx, c.refuseArguments(err)))
}

// Reconcile asks the tool's look-up about a call whose outcome is unknown, and
// stores what it finds. It never runs the tool.
func (b *Bound[In, Out]) Reconcile(ctx context.Context, req Request, in In) Outcome[Out] {
	args, err := typedArguments(b.spec, b.tool.Normalize, in)
	c := b.call(req, args)
	return b.outcome(c.reconcile(ctx, c.refuseArguments(err)))
}

// Close makes sure that nothing can start under the request's key any more,
// before somebody is told that the call did nothing. A call that is running, or
// that took effect, is reported as it is, without its result.
func (b *Bound[In, Out]) Close(ctx context.Context, req Request) Outcome[Out] {
	return b.outcome(b.call(req, arguments[In]{}).close(ctx))
}

// Compensate undoes a call for which a person has asked an undo, and reports on
// the undo: whether it took effect, and not where the call stands, which is left
// to whoever asked. It is refused unless a consistent read shows that this undo
// was asked for and is open. req is the call's own but for CallID, which is the
// undo's, as [ledger.Key.Undo] writes it; in is what the call ran with, and not
// minded by a tool that undoes by key. An undo has one attempt and a record of its
// own, from which repeats are answered, also while nobody knows its outcome. No
// permission is needed: the person's word on the call's record allows it.
func (b *Bound[In, Out]) Compensate(ctx context.Context, req Request, in In) Report {
	if b.spec.undoesByKey {
		c := b.call(req, arguments[In]{})
		c.unargued = true
		return c.compensate(ctx, nil).report
	}
	args, err := typedArguments(b.spec, b.tool.Normalize, in)
	c := b.call(req, args)
	return c.compensate(ctx, c.refuseArguments(err)).report
}

func (b *Bound[In, Out]) outcome(e ending) Outcome[Out] {
	o := Outcome[Out]{Report: e.report}
	value, direct := e.value.(*Out)
	switch {
	case direct:
		o.value = *value
	case e.report.Status == Completed && e.result != nil:
		if err := json.Unmarshal(e.result, &o.value); err != nil {
			// The effect stands; only its result does not fit Out any more.
			o.err = &Error{Report: e.report}
		}
	default:
		o.err = &Error{Report: e.report, err: e.err}
	}
	return o
}

// Wrap returns tool.Run, guarded, with its own type. identify says which call
// an input is; it must answer the same on every repeat. Errors are [*Error].
func Wrap[In, Out any](guard *Guard, tool Tool[In, Out], identify func(context.Context, In) (Request, error)) (func(context.Context, In) (Out, error), error) {
	if identify == nil {
		return nil, errors.New("once: Wrap: identify is nil")
	}
	b, err := Bind(guard, tool)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, in In) (Out, error) {
		req, err := identify(ctx, in)
		if err != nil {
			var none Out
			e := refusal(ledger.Key{}, codeUnidentified, "")
			e.Tool, e.Effect, e.Next, e.err = tool.Name, ledger.NoEffect, ledger.Done, err
			return none, e
		}
		return b.Do(ctx, req, in).Value()
	}, nil
}

// call puts the untyped half of one invocation together.
func (b *Bound[In, Out]) call(req Request, args arguments[In]) *invocation {
	req.Attempt = max(req.Attempt, 1)
	t := b.tool
	c := &invocation{g: b.guard, t: b.spec, req: req, key: req.Key(), fingerprint: args.fingerprint, received: args.received}
	if of, n, ok := c.key.UndoOf(); ok {
		c.t, c.undo = b.spec.ofUndo(), &undoing{of: of, n: n}
		if t.Compensate != nil {
			c.undo.run = func(ctx context.Context, rec ledger.Record) error { return t.Compensate(ctx, rec, args.in) }
		}
		return c // whatever it is asked, it neither runs the tool nor looks the call up
	}
	c.summarise = func() string { return args.summary(t.Summary) }
	if t.Authorize != nil {
		c.authorize = func(ctx context.Context) error { return t.Authorize(ctx, req, args.in) }
	}
	c.run = func(ctx context.Context) (yield, error) {
		out, err := t.Run(ctx, args.in)
		if err != nil {
			return yield{}, err
		}
		return yield{what: landed(out, t.ExternalID, !c.direct() || c.encode), value: &out}, nil
	}
	if t.Reconcile != nil {
		c.look = func(ctx context.Context, rec ledger.Record) (yield, error) {
			out, found, err := t.Reconcile(ctx, rec, args.in)
			if err != nil {
				return yield{}, err
			}
			if !found {
				return yield{what: ledger.Settlement{Effect: ledger.NoEffect, Retryable: true, Code: codeAbsent, Message: sentences[codeAbsent]}}, nil
			}
			return yield{what: landed(out, t.ExternalID, true)}, nil
		}
	}
	return c
}

// landed describes an effect that was seen. Nothing that goes wrong from here on
// may make anything else of it, so a result that can't be written is left out.
func landed[Out any](out Out, externalID func(Out) string, encode bool) ledger.Settlement {
	what := ledger.Settlement{Effect: ledger.Happened}
	if externalID != nil {
		_ = guarded(func() error { what.ExternalID = externalID(out); return nil })
	}
	if !encode {
		return what
	}
	err := guarded(func() (err error) { what.Result, err = json.Marshal(out); return err })
	if err != nil {
		what.Result, what.NotKept = nil, true
	}
	return what
}
