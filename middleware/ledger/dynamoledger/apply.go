package dynamoledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/middleware/ledger"
)

// ErrRestless reports that a record changed, or came and went, each time that a
// move was worked out on it. This move was not stored; it may be tried again.
var ErrRestless = errors.New("dynamoledger: record does not hold still")

// How often a move is worked out anew on the record that refused it although its
// proof holds: because it was flagged meanwhile, or its list was full.
const (
	maxTries   = 24
	maxCreates = 3
)

// maxText bounds what a reporter or a person may write into a record, so that
// its item stays far below DynamoDB's limit.
const (
	maxReason     = 8 << 10
	maxExternalID = 1 << 10
)

// Apply implements [ledger.Store].
func (s *Store) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	if err := checkMove(m); err != nil {
		return ledger.Record{}, err
	}
	var r ledger.Record
	var err error
	if created, ok := m.Creates(); ok {
		r, err = s.create(ctx, m, created.Kept())
	} else {
		r, err = s.update(ctx, m)
	}
	if err != nil && !errors.Is(err, ledger.ErrStale) {
		return ledger.Record{}, fmt.Errorf("dynamoledger: %s %s: %w", m.Event(), m.Key(), err)
	}
	return r, err
}

func checkMove(m ledger.Move) error {
	c := m.Change()
	switch {
	case len(m.Rows()) == 0 || c.Stamp.WriteID == "":
		return fmt.Errorf("dynamoledger: %w: a move without a row or a write id", ledger.ErrInvalid)
	case c.Decision != nil && len(c.Decision.Reason) > maxReason || c.Evidence != nil && len(c.Evidence.Reason) > maxReason:
		return fmt.Errorf("dynamoledger: %w: a reason above %d bytes", ledger.ErrInvalid, maxReason)
	}
	if err := m.Key().Check(); err != nil {
		return fmt.Errorf("dynamoledger: %w", err)
	}
	return nil
}

// create stores a new record, if there is none.
func (s *Store) create(ctx context.Context, m ledger.Move, r ledger.Record) (ledger.Record, error) {
	r.Outcome = s.place(ctx, m, r)
	r, it := s.fit(r)
	in := &dynamodb.PutItemInput{
		TableName: s.table, Item: it, ConditionExpression: new(absent),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	for range maxCreates {
		// Stored now: the whole record. If we stop here, a started call is found by
		// the next invocation under its key and, past its deadline, by the list.
		_, err := s.client.PutItem(ctx, in)
		if err == nil {
			return r, nil
		}
		stands, refused, err := s.standing(ctx, err, m)
		switch {
		case !refused || err != nil:
			return ledger.Record{}, err
		case !stands.Exists():
			continue // it was removed between the put and the look
		case m.StoredIn(stands):
			return stands, nil
		}
		_, err = m.On(stands)
		return stands, err
	}
	return ledger.Record{}, ErrRestless
}

// update stores a move of a record that exists. It is worked out on the record
// that the move was decided on and, if the store refuses that although the
// proof holds, on the one that stands.
func (s *Store) update(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	assumed := m.Read().Kept()
	var outcome *ledger.Outcome
	for range maxTries {
		next, err := m.On(assumed)
		if err != nil {
			if m.StoredIn(assumed) {
				return assumed, nil
			}
			return assumed, err
		}
		if m.Change().Outcome != nil && outcome == nil {
			outcome = new(s.place(ctx, m, next.Kept()))
		}
		if outcome != nil {
			next.Outcome = *outcome
		}
		spilled, err := s.spill(ctx, m, assumed, next)
		if err != nil {
			return ledger.Record{}, err
		}
		// Stored now: the state, what led to it, its place in the list and its time
		// to live, in one write. If we stop here, the sender's next try meets its own
		// write; whoever else loads the record finds the move done.
		out, err := s.client.UpdateItem(ctx, s.updateOf(m, assumed, next.Kept(), spilled))
		if err == nil {
			return decodeRecord(m.Key(), out.Attributes)
		}
		stands, refused, err := s.standing(ctx, err, m)
		switch {
		case !refused || err != nil:
			return ledger.Record{}, err
		case m.StoredIn(stands):
			return stands, nil
		}
		assumed = stands // refused for good if its proof fails on this one
	}
	return ledger.Record{}, ErrRestless
}

// standing returns the record that refused m, if err is such a refusal.
func (s *Store) standing(ctx context.Context, err error, m ledger.Move) (r ledger.Record, refused bool, _ error) {
	found, refused, err := s.refusal(ctx, err, callKey(m.Key()))
	if !refused || err != nil {
		return ledger.Record{}, refused, err
	}
	r, err = decodeRecord(m.Key(), found)
	return r, true, err
}
