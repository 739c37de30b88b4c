package ledger

import "fmt"

// The sentences that a model hears are fixed, one per effect, so that no tool
// and no planner can make "failed" of "unknown". Only a result or a reason is
// filled in.
const (
	saysHappened       = "This call took effect. Result: %s"
	saysHappenedBare   = "This call took effect. Its result was not kept."
	saysHappenedAfter  = "This call took effect, although it was first recorded as failed."
	saysNone           = "This call certainly did not take effect: %s."
	saysUnresolved     = "This call is unresolved: it may or may not have taken effect. Do not repeat it."
	saysUndone         = "This call took effect and was undone."
	saysAwaitsApproval = "This call has not run. It waits for a person's approval. Do not repeat it."
	saysRequestOnly    = "This request did nothing. An earlier one may have taken effect. Do not repeat it."
	saysNothing        = "This request did nothing, and no earlier one under its key has: %s."
)

// ModelSays returns the sentence for the record, with result (JSON, nil if it
// was not kept) in it when the call completed.
func (r Record) ModelSays(result []byte) string {
	switch {
	case r.Status == Reserved:
		return saysAwaitsApproval
	case r.Effect() == Undone:
		return saysUndone
	case r.Effect() == Happened && r.Status == Failed:
		return saysHappenedAfter
	case r.Effect() == Happened && result == nil:
		return saysHappenedBare
	case r.Effect() == Happened:
		return fmt.Sprintf(saysHappened, result)
	case r.Effect() == NoEffect && r.Status == Failed && !r.Flags.Has(Retryable):
		return fmt.Sprintf(saysNone, r.why())
	}
	return saysUnresolved
}

// RequestSays returns the sentence for an answer that speaks of one request
// only: a conflict, a refusal, an expiry. reason is told only when the effect
// of the call is known to be none.
func RequestSays(effect Effect, reason string) string {
	if effect == NoEffect {
		return fmt.Sprintf(saysNothing, reason)
	}
	return saysRequestOnly
}

func (r Record) why() string {
	if r.Outcome.Message != "" {
		return r.Outcome.Message
	}
	if r.Outcome.Code != "" {
		return r.Outcome.Code
	}
	return "no reason was recorded"
}
