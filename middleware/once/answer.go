package once

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// longestWait caps RetryAfter: what an answer may make a state machine wait.
const longestWait = 24 * time.Hour

// AnswerOf returns the brief answer for a record that was read from the ledger,
// as a call desk gives it. No record is answered refused, no_record, with next
// again: nothing ran, so the tool may be asked. canLook says that the tool has a
// look-up which has not just been asked.
func AnswerOf(rec ledger.Record, now time.Time, canLook bool, policy ledger.Policy) Answer {
	if !rec.Exists() {
		r := refusal(rec.Key, codeNoRecord, "").Report
		r.Effect, r.Next, r.RetryAfter = ledger.NoEffect, ledger.Again, time.Second
		return r.answer(ReplyBrief)
	}
	r := reportOf(rec, now, canLook, policy)
	r.Replayed = true
	return r.answer(ReplyBrief)
}

// RefusalAnswer returns the answer for a request that was refused with err,
// which should be of [DecodeEnvelope]. If the request names a well-formed key,
// it is read once, consistently, so that the answer says what is known of an
// earlier effect: no record is "none, done"; a record is its effect, "inspect";
// unreadable is "unknown, inspect". Nothing is written.
func RefusalAnswer(ctx context.Context, store interface {
	Load(context.Context, ledger.Key) (ledger.Record, error)
}, err error,
) Answer {
	return refused(ctx, store.Load, err).answer(ReplyBrief)
}

// refused completes a refusal with what the ledger knows of an earlier effect.
func refused(ctx context.Context, load func(context.Context, ledger.Key) (ledger.Record, error), err error) Report {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = refusal(ledger.Key{}, codeBadJSON, "")
	}
	r := e.Report
	if r.Key.Check() != nil {
		r.Key, r.Effect, r.Next = ledger.Key{}, ledger.NoEffect, ledger.Done
		r.ModelSays = ledger.RequestSays(r.Effect, r.Message)
		return r
	}
	rec, readErr := load(ctx, r.Key)
	return r.seen(rec, readErr)
}

// seen is section 4's rule for a refused request whose key was read.
func (r Report) seen(rec ledger.Record, readErr error) Report {
	switch {
	case readErr != nil:
		r.Effect, r.Next = ledger.Unknown, ledger.Inspect
	case rec.Exists():
		r.Effect, r.Next = rec.Effect(), ledger.Inspect
		r.Attempt, r.Since = rec.Attempt.Number, rec.Attempt.StartedAt
	case r.Code == codeTooLittleTime:
		r.Effect, r.Next, r.RetryAfter = ledger.NoEffect, ledger.Again, time.Second
	default:
		r.Effect, r.Next = ledger.NoEffect, ledger.Done
	}
	r.ModelSays = ledger.RequestSays(r.Effect, r.Message)
	return r
}

// reportOf says what the ledger says of the call.
func reportOf(rec ledger.Record, now time.Time, canLook bool, policy ledger.Policy) Report {
	r := Report{
		Key: rec.Key, Tool: rec.Tool, Status: statusOf(rec), Effect: rec.Effect(), Next: rec.Next(now, canLook, policy),
		Attempt: rec.Attempt.Number, ExternalID: rec.Outcome.ExternalID, Since: rec.Attempt.StartedAt,
	}
	switch r.Status {
	case Failed, Indeterminate:
		r.Code, r.Message = rec.Outcome.Code, rec.Outcome.Message
		if rec.Flags.Has(ledger.Contradicted) {
			r.Code, r.Message = codeContradicted, sentences[codeContradicted]
		}
		r.Code = cmp.Or(r.Code, codeUnknown)
		r.Message = cmp.Or(r.Message, sentences[r.Code])
	case Compensated:
		r.Code, r.Message = codeCompensated, sentences[codeCompensated]
	case ApprovalRequired:
		r.Code, r.Message = codeAwaiting, "a person has to approve the call before "+rec.Approval.ExpiresAt.UTC().Format(time.RFC3339)
	case InProgress:
		r.Code, r.Message = codeRunning, "an attempt may be running until "+rec.Attempt.Deadline.UTC().Format(time.RFC3339)
	case Refused:
		r.Code, r.Message = codeFollower, sentences[codeFollower]
	case Completed, Conflict, Expired:
	}
	if r.Next == ledger.Again {
		r.RetryAfter = wait(rec, now)
	}
	r.ModelSays = rec.ModelSays(nil)
	return r
}

// statusOf returns the answer's word. Where a late outcome denies the record's
// status, the effect decides: nobody may hear "failed" of what may have happened.
func statusOf(rec ledger.Record) Status {
	switch rec.Status {
	case ledger.Started:
		return InProgress
	case ledger.Reserved:
		return ApprovalRequired
	case ledger.Indeterminate:
		return Indeterminate
	case ledger.Completed, ledger.Failed, ledger.Compensated:
		switch rec.Effect() {
		case ledger.Happened:
			return Completed
		case ledger.NoEffect:
			return Failed
		case ledger.Undone:
			return Compensated
		case ledger.Unknown:
			return Indeterminate
		}
	case ledger.None, ledger.Follower:
	}
	return Refused
}

// wait returns how long to let somebody else's attempt go on before asking
// again: not past its deadline, and a few seconds at a time, since most end soon.
func wait(rec ledger.Record, now time.Time) time.Duration {
	return min(max(rec.Attempt.Deadline.Sub(now), time.Second), 5*time.Second)
}

// answer puts the report into the envelope's answer, without a result.
func (r Report) answer(reply Reply) Answer {
	a := Answer{
		Onceward: EnvelopeVersion, Tool: r.Tool, Status: r.Status, Effect: r.Effect, Replayed: r.Replayed, Attempt: r.Attempt,
		ExternalID: r.ExternalID, Error: AnswerError{Code: r.Code, Message: r.Message}, Next: r.Next,
		RetryAfterSeconds: seconds(r.RetryAfter),
	}
	if r.Key != (ledger.Key{}) {
		a.Key = r.Key.String()
	}
	if reply != ReplyBrief {
		a.ModelSays = r.ModelSays
	}
	if reply == ReplyBrief && len(a.ExternalID) > maxBriefID {
		a.ExternalID = "" // half an id would name something else; the ledger has it
	}
	return a
}

// maxBriefID keeps a brief answer below 2 KiB.
const maxBriefID = 512

// seconds rounds up, so that nobody asks too early.
func seconds(d time.Duration) int {
	return int((min(max(d, 0), longestWait) + time.Second - 1) / time.Second)
}
