package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/onceward/onceward/middleware/ledger"
)

// The outcomes that a person can give an unknown call. There is no default.
const (
	OutcomeCompleted = "completed"
	OutcomeFailed    = "failed"
)

// maxExternalID is the longest receiver's name of an effect, in bytes.
const maxExternalID = 256

// Resolution is a person's word on an unknown call.
type Resolution struct {
	Command
	Outcome    string
	Result     json.RawMessage // what the model will hear; with completed only
	ExternalID string          // with completed only
	AllowRetry bool            // grants one more attempt; with failed only
}

// Resolve settles an unknown call by a person's word and wakes its run.
// Problems: [InvalidRequest], [NotFound], [StaleVersion], [AlreadyDecided],
// [AlreadySettled], [NotAllowed], [KeyReused]: nothing was changed;
// [OutcomeUnknown]: it may be stored.
func (s *Service) Resolve(ctx context.Context, id Identity, in Resolution) (Decided, error) {
	if err := id.May(DecideCalls); err != nil {
		return Decided{}, err
	}
	what, err := in.settlement()
	if err != nil {
		return Decided{}, err
	}
	said := []any{in.Outcome, in.Reason, in.ExpectedVersion, string(what.Result), in.ExternalID, in.AllowRetry}
	return s.decide(ctx, id, verb{name: "resolve", move: func(r ledger.Record, st ledger.Stamp, d ledger.Decision) (ledger.Move, error) {
		return r.Resolve(st, d, what)
	}}, in.Command, said)
}

// settlement checks the resolution and names every wrong field in one problem.
func (in Resolution) settlement() (ledger.Settlement, error) {
	var wrong invalid
	what := ledger.Settlement{Effect: ledger.NoEffect, Retryable: in.AllowRetry, Code: "resolved_failed", Message: in.Reason}
	switch in.Outcome {
	case OutcomeCompleted:
		what = ledger.Settlement{Effect: ledger.Happened, ExternalID: in.ExternalID}
		if in.AllowRetry {
			wrong.add("body.allow_retry", "goes with outcome failed only")
		}
		var compact bytes.Buffer
		if !present(in.Result) {
			break
		}
		if err := json.Compact(&compact, in.Result); err != nil {
			wrong.add("body.result", "is not JSON")
		}
		what.Result = compact.Bytes()
	case OutcomeFailed:
		if present(in.Result) {
			wrong.add("body.result", "goes with outcome completed only")
		}
		if in.ExternalID != "" {
			wrong.add("body.external_id", "goes with outcome completed only")
		}
	default:
		wrong.add("body.outcome", "is required: completed or failed")
	}
	if len(in.ExternalID) > maxExternalID {
		wrong.add("body.external_id", fmt.Sprintf("is longer than %d bytes", maxExternalID))
	}
	in.check(&wrong, true)
	return what, wrong.problem()
}
