package memledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// SaveWait implements [ledger.Waits].
func (s *Store) SaveWait(ctx context.Context, w ledger.Wait) error {
	if err := checkWait(w); err != nil {
		return err
	}
	return s.step(ctx, Step{Op: SaveWait, Key: w.Key}, func() error {
		name := waitKey{w.Key, w.ID}
		if _, ok := s.waits[name]; !ok {
			w.RungAt, w.How = time.Time{}, "" // only a confirmation rings
			s.waits[name] = kept(w)
		}
		return nil
	})
}

// Waits implements [ledger.Waits].
func (s *Store) Waits(ctx context.Context, key ledger.Key) ([]ledger.Wait, error) {
	var found []ledger.Wait
	err := s.step(ctx, Step{Op: ListWaits, Key: key}, func() error {
		for name, w := range s.waits {
			if name.call == key {
				found = append(found, w)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b ledger.Wait) int {
		return cmp.Or(a.ParkedAt.Compare(b.ParkedAt), cmp.Compare(a.ID, b.ID))
	})
	return found, nil
}

// ConfirmWait implements [ledger.Waits]. A confirmation that overtakes its save
// is kept, so that the save finds the bell rung.
func (s *Store) ConfirmWait(ctx context.Context, w ledger.Wait, how string, at time.Time) error {
	if err := checkWait(w); err != nil {
		return err
	}
	return s.step(ctx, Step{Op: ConfirmWait, Key: w.Key}, func() error {
		name := waitKey{w.Key, w.ID}
		stored, ok := s.waits[name]
		if !ok {
			stored = w
		}
		if stored.Rung() && ok {
			return nil
		}
		stored.RungAt, stored.How, stored.Token = at, how, ""
		s.waits[name] = kept(stored)
		return nil
	})
}

func checkWait(w ledger.Wait) error {
	if err := w.Key.Check(); err != nil {
		return fmt.Errorf("memledger: wait: %w", err)
	}
	if w.ID == "" {
		return fmt.Errorf("memledger: wait: %w: no id", ledger.ErrInvalid)
	}
	return nil
}

func kept(w ledger.Wait) ledger.Wait {
	for _, at := range []*time.Time{&w.ParkedAt, &w.RungAt} {
		if !at.IsZero() {
			*at = time.UnixMilli(at.UnixMilli()).UTC()
		}
	}
	return w
}
