package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/middleware/ledger"
)

// refused answers a decision that the record does not allow, unless it is there
// already, among the entries that the record no longer holds.
func (s *Service) refused(ctx context.Context, r ledger.Record, name decisionName, d ledger.Decision, why error, move build) (Decided, error) {
	if errors.Is(why, ledger.ErrInvalid) {
		return Decided{}, problem(InvalidRequest, "").because(why)
	}
	if name.request != "" {
		decisions, _, err := s.history(ctx, r)
		if err != nil {
			return Decided{}, problem(Unavailable, "the call's history could not be read; nothing was changed").because(err)
		}
		if entry, err := name.among(decisions); err != nil {
			return Decided{}, err
		} else if entry != nil {
			return s.decided(ctx, r, *entry, true)
		}
	}
	d.Version = r.Version
	_, err := move(r, ledger.Stamp{At: s.cfg.Now(), WriteID: d.ID}, d)
	return Decided{}, s.conflict(r, err == nil).because(why)
}

// conflict names who stands in the way.
func (s *Service) conflict(r ledger.Record, stillPossible bool) *Problem {
	by := winner(r)
	p := problem(NotAllowed, "the call is "+r.State().String())
	switch {
	case stillPossible:
		p = problem(StaleVersion, fmt.Sprintf("the record is at version %d", r.Version))
	case by != nil && by.Kind == string(ledger.ByPerson):
		p = problem(AlreadyDecided, "decided by "+by.Actor+": "+by.Decision)
	case settled(r.Status):
		p = problem(AlreadySettled, "the call is "+r.State().String())
	}
	p.Record, p.DecidedBy = viewOf(r, s.cfg.Now()), by
	return p
}

// winner returns who brought the record where it stands, nil if nobody did.
func winner(r ledger.Record) *DecidedBy {
	if n := len(r.Decisions); n > 0 {
		last := r.Decisions[n-1]
		if last.After == r.State().String() {
			return &DecidedBy{Kind: string(ledger.ByPerson), Actor: last.By, Decision: string(last.Kind), At: stamp(last.At)}
		}
	}
	if r.Outcome.By.Kind == "" {
		return nil
	}
	by := &DecidedBy{Kind: string(r.Outcome.By.Kind), At: stamp(r.Outcome.At)}
	if r.Outcome.By.Kind == ledger.ByPerson {
		by.Actor = r.Outcome.By.ID
	}
	return by
}

func settled(status ledger.Status) bool {
	switch status {
	case ledger.Completed, ledger.Failed, ledger.Compensated:
		return true
	case ledger.None, ledger.Reserved, ledger.Started, ledger.Indeterminate, ledger.Follower:
	}
	return false
}
