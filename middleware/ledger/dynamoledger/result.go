package dynamoledger

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// The attributes of a result that lies beside its record.
const (
	attrBody   = "body"
	attrDigest = "digest"
)

// refBytes is about what a reference to a result takes in a record; a shorter
// result always lies in it.
const refBytes = 120

// place returns the outcome of next as its record can hold it: a result that is
// too long for it lies beside it from now on, or is not kept. Whatever becomes
// of the result, the call stays what it is.
func (s *Store) place(ctx context.Context, m ledger.Move, next ledger.Record) ledger.Outcome {
	outcome := next.Outcome
	outcome.ExternalID = ledger.Shorten(outcome.ExternalID, maxExternalID)
	if !s.liesBeside(next) {
		return outcome
	}
	result := outcome.Result
	outcome.Result = nil
	if len(result) > ledger.MaxResult {
		outcome.Ref = ledger.ResultRef{NotKept: true}
		return outcome
	}
	ref := ledger.ResultRef{WriteID: m.Change().Stamp.WriteID, Digest: ledger.DigestOf(result), Bytes: len(result)}
	if err := s.putResult(ctx, next, ref, result); err != nil {
		// An error that leaves it open whether the result is stored leaves at worst
		// an item that nobody names; its time to live removes it.
		ref = ledger.ResultRef{NotKept: true}
	}
	outcome.Ref = ref
	return outcome
}

// liesBeside reports whether the result of r is too long for its item, or would
// by itself make a replay cost a second write unit.
func (s *Store) liesBeside(r ledger.Record) bool {
	result := len(r.Outcome.Result)
	if result <= refBytes || result > s.options.InlineLimit {
		return result > s.options.InlineLimit
	}
	if s.options.InlineLimit > ledger.InlineResult {
		return false // the user has chosen
	}
	whole := itemSize(s.encode(r))
	return whole > writeUnit && whole-result+refBytes <= writeUnit
}

func (s *Store) putResult(ctx context.Context, r ledger.Record, ref ledger.ResultRef, result []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.resultWait(ctx))
	defer cancel()
	it := besideKey(resultItems, r.Key, ref.WriteID)
	it[attrSchema] = version
	it[attrBody] = raw(result)
	it[attrDigest] = str(string(ref.Digest))
	if at, ok := r.Expiry(s.options.Retention); ok {
		it[names.AttrTTL] = seconds(at)
	}
	// Stored now: a result that no record names yet. If we stop here nothing has
	// happened to the call, and nobody finds the result but the broom.
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: s.table, Item: it})
	return err
}

func (s *Store) resultWait(ctx context.Context) time.Duration {
	wait := s.options.ResultWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	return wait
}

// Result implements [ledger.Store]: with no request if the record holds the
// result, else with one consistent read.
func (s *Store) Result(ctx context.Context, r ledger.Record) ([]byte, error) {
	if r.Outcome.Result != nil {
		return r.Outcome.Result, nil
	}
	ref := r.Outcome.Ref
	if ref.NotKept || ref.WriteID == "" {
		return nil, ledger.ErrNotKept
	}
	it, err := s.get(ctx, besideKey(resultItems, r.Key, ref.WriteID))
	if err != nil {
		return nil, fmt.Errorf("dynamoledger: result of %s: %w", r.Key, err)
	}
	if len(it) == 0 {
		return nil, fmt.Errorf("dynamoledger: result of %s is past its retention: %w", r.Key, ledger.ErrNotKept)
	}
	d := decoder{it: it}
	body := d.bytes(attrBody)
	if d.number(attrSchema) != schemaVersion || len(body) != ref.Bytes || ledger.DigestOf(body) != ref.Digest {
		return nil, fmt.Errorf("dynamoledger: result of %s: %w: it is not what its digest says", r.Key, ledger.ErrCorrupt)
	}
	return body, nil
}
