package memledger

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/cursor"
	"github.com/onceward/onceward/middleware/ledger"
)

const defaultLimit = 50

// listed is one line of the list: a record or a wait, with what it is sorted by.
type listed struct {
	position
	record *ledger.Record
	wait   *ledger.Wait
}

type position struct {
	Since int64  `json:"since"`
	Name  string `json:"name"`
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.Since, q.Since), cmp.Compare(p.Name, q.Name))
}

// Unsettled implements [ledger.Store].
func (s *Store) Unsettled(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	step := Step{Op: Unsettled, Key: ledger.Key{Tenant: q.Tenant}}
	return s.list(ctx, step, q, func(key ledger.Key) bool { return key.Tenant == q.Tenant })
}

// Scan implements [ledger.Scanner].
func (s *Store) Scan(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	segment, segments, err := q.Parts()
	if err != nil {
		return ledger.Page{}, fmt.Errorf("memledger: %w", err)
	}
	return s.list(ctx, Step{Op: Scan}, q, func(key ledger.Key) bool {
		h := fnv.New32a()
		_, _ = h.Write([]byte(key.Tenant + "#" + key.RunID)) // a hash takes everything
		return h.Sum32()%uint32(segments) == uint32(segment) //nolint:gosec // at most 64
	})
}

func (s *Store) list(ctx context.Context, step Step, q ledger.Query, in func(ledger.Key) bool) (ledger.Page, error) {
	from, err := parseCursor(q.Cursor)
	if err != nil {
		return ledger.Page{}, err
	}
	var lines []listed
	err = s.step(ctx, step, func() error {
		lines = s.unsettled(in)
		return nil
	})
	if err != nil {
		return ledger.Page{}, err
	}
	slices.SortFunc(lines, func(a, b listed) int { return a.compare(b.position) })
	if from != nil {
		lines = slices.DeleteFunc(lines, func(l listed) bool { return l.compare(*from) <= 0 })
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	return page(lines, limit), nil
}

func (s *Store) unsettled(in func(ledger.Key) bool) []listed {
	var lines []listed
	for key, r := range s.records {
		if in(key) && r.State().Unsettled() {
			r = r.Kept()
			lines = append(lines, listed{at(r.WaitsSince, key.String()), &r, nil})
		}
	}
	for name, w := range s.waits {
		if in(name.call) && !w.Rung() {
			lines = append(lines, listed{at(w.ParkedAt, name.call.String()+"#"+name.id), nil, &w})
		}
	}
	return lines
}

func page(lines []listed, limit int) ledger.Page {
	var p ledger.Page
	for i, l := range lines {
		if i == limit {
			p.Next = cursor.Encode(lines[i-1].position)
			break
		}
		if l.record != nil {
			p.Records = append(p.Records, *l.record)
		} else {
			p.Waits = append(p.Waits, *l.wait)
		}
	}
	return p
}

func at(t time.Time, name string) position { return position{t.UnixMilli(), name} }

func parseCursor(given string) (*position, error) {
	if given == "" {
		return nil, nil //nolint:nilnil // no cursor is no position
	}
	p, err := cursor.Decode[position](given)
	if err != nil || p.Name == "" {
		return nil, fmt.Errorf("memledger: %w: cursor", ledger.ErrInvalid)
	}
	return &p, nil
}
