package operator

import (
	"context"
	"errors"

	"github.com/onceward/onceward/middleware/ledger"
)

// writeOff makes way for a decision on a started call whose executor's hard
// deadline has passed: the executor sends nothing any more, so the call is
// unknown and a person may settle it, also where no tool is left that would say
// so. Whoever looked at the started record has seen all that there is to see, so
// its version stands for the one after it. The record comes back as it was if the
// decision would not be possible all the same, or names another version.
func (s *Service) writeOff(ctx context.Context, r ledger.Record, d ledger.Decision, move build) (ledger.Record, ledger.Decision, error) {
	seen := r.Version
	if d.Version == seen && s.possibleOnceLost(r, d, move) {
		lost, err := r.Orphan(s.stamp())
		if err != nil {
			return r, d, problem(Internal, "").because(err)
		}
		// Stored now: nobody knows whether the call took effect, which was so before.
		// If we stop here it is listed as unknown, and the same request again decides
		// it.
		if r, err = s.apply(ctx, lost); err != nil && !errors.Is(err, ledger.ErrStale) {
			return r, d, problem(OutcomeUnknown, "the ledger did not answer").because(err)
		} else if err == nil {
			d.Version = r.Version
			return r, d, nil
		}
	}
	if onlyLost(r) && r.Version == d.Version+1 {
		d.Version = r.Version
	}
	return r, d, nil
}

// onlyLost reports whether the call's latest move was that its executor was
// written off: all later moves of an unknown call leave flags.
func onlyLost(r ledger.Record) bool {
	return r.Status == ledger.Indeterminate && r.Flags == 0 && r.Outcome.Code == executorLost && r.Outcome.By.Kind == ledger.BySweeper
}

// executorLost is the ledger's word for an executor that was written off.
const executorLost = "executor_lost"

// possible reports whether the decision could be made on the record as it is,
// by whoever names its version.
func (s *Service) possible(r ledger.Record, d ledger.Decision, move build) bool {
	d.Version = r.Version
	_, err := move(r, s.stamp(), d)
	return err == nil || s.possibleOnceLost(r, d, move)
}

// timely reports whether the decision could be made on the record as it is, by the
// person who made it. Nothing is stored.
func (s *Service) timely(r ledger.Record, d ledger.Decision, move build) bool {
	return (d.Version == r.Version || onlyLost(r) && r.Version == d.Version+1) && s.possible(r, d, move)
}

// possibleOnceLost reports whether the decision is possible exactly because the
// executor's deadline has passed. Nothing is stored.
func (s *Service) possibleOnceLost(r ledger.Record, d ledger.Decision, move build) bool {
	if _, err := move(r, s.stamp(), d); err == nil {
		return false
	}
	lost, err := r.Orphan(s.stamp())
	if err != nil {
		return false
	}
	after, err := lost.On(r)
	if err != nil {
		return false
	}
	d.Version = after.Version
	_, err = move(after, s.stamp(), d)
	return err == nil
}

func (s *Service) stamp() ledger.Stamp {
	return ledger.Stamp{At: s.cfg.Now(), WriteID: s.cfg.NewID()}
}
