package dynamoledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// The attributes of a wait.
const (
	attrWaitRun   = "run_id"
	attrWaitCall  = "call_id"
	attrWaitID    = "wait_id"
	attrBell      = "bell" // the task token; no list and no log shows it
	attrExecution = "execution"
	attrParkedAt  = "parked_at"
	attrRungAt    = "rung_at"
	attrHow       = "how"
)

// SaveWait implements [ledger.Waits] with one conditional put.
func (s *Store) SaveWait(ctx context.Context, w ledger.Wait) error {
	if err := checkWait(w); err != nil {
		return err
	}
	it := besideKey(waitItems, w.Key, w.ID)
	for name, v := range waitFields(w) {
		if v != nil {
			it[name] = v
		}
	}
	it[names.AttrIndexPartition], it[names.AttrIndexSort] = s.indexKeys(w.Key, w.ParkedAt)
	// Stored now: the doorbell of a parked run, without a time to live. If we stop
	// here the list finds it, and whoever settles the call rings it.
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: s.table, Item: it, ConditionExpression: new(absent)})
	if _, stored := errors.AsType[*types.ConditionalCheckFailedException](err); stored {
		return nil // by us, or rung already
	}
	if err != nil {
		return fmt.Errorf("dynamoledger: save wait of %s: %w", w.Key, err)
	}
	return nil
}

func waitFields(w ledger.Wait) item {
	return item{
		attrSchema:  version,
		attrWaitRun: str(w.Key.RunID), attrWaitCall: str(w.Key.CallID), attrWaitID: str(w.ID),
		attrBell: str(string(w.Token)), attrExecution: str(w.Execution), attrParkedAt: instant(w.ParkedAt),
	}
}

// ConfirmWait implements [ledger.Waits] with one update. A confirmation that
// overtakes its save leaves a rung wait, which the save then finds.
func (s *Store) ConfirmWait(ctx context.Context, w ledger.Wait, how string, at time.Time) error {
	if err := checkWait(w); err != nil {
		return err
	}
	u := newUpdate()
	fields := waitFields(w)
	delete(fields, attrBell)
	fields[attrRungAt], fields[attrHow], fields[names.AttrTTL] = instant(at), str(how), seconds(at.Add(s.options.Retention+ledger.BroomDelay))
	for name, v := range fields {
		if v != nil {
			u.values[placeholder(name)] = v
			u.assign(name, "if_not_exists(", ref(name), ", ", placeholder(name), ")")
		}
	}
	for _, name := range []string{names.AttrIndexPartition, names.AttrIndexSort, attrBell} {
		u.put(name, nil)
	}
	expression := u.text()
	// Stored now: the bell's end, out of the list and without its token, for as long
	// as a settled record: from when to when a run waited is not time at work. If we
	// stop here nobody rings again; the run has been told.
	_, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: s.table, Key: besideKey(waitItems, w.Key, w.ID), UpdateExpression: &expression,
		ExpressionAttributeNames: waitNames, ExpressionAttributeValues: u.values,
	})
	if err != nil {
		return fmt.Errorf("dynamoledger: confirm wait of %s: %w", w.Key, err)
	}
	return nil
}

var waitNames = map[string]string{"#" + names.AttrTTL: names.AttrTTL, "#" + attrSchema: attrSchema}

// Waits implements [ledger.Waits] with one consistent query. A wait that can't be
// read doesn't hide the others: they come with an error that is
// [ledger.ErrCorrupt] and joins a [CorruptItemError] for each.
func (s *Store) Waits(ctx context.Context, key ledger.Key) ([]ledger.Wait, error) {
	items, err := s.beside(ctx, waitItems, key)
	if err != nil {
		return nil, fmt.Errorf("dynamoledger: waits of %s: %w", key, err)
	}
	var all []ledger.Wait
	var errs []error
	for _, it := range items {
		w, err := decodeWait(key.Tenant, it)
		if err != nil {
			errs = append(errs, corruptItem(key.Tenant, it, err))
			continue
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b ledger.Wait) int {
		return cmp.Or(a.ParkedAt.Compare(b.ParkedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, errors.Join(errs...)
}

func decodeWait(tenant string, it item) (ledger.Wait, error) {
	d := decoder{it: it}
	w := ledger.Wait{
		Key: ledger.Key{Tenant: tenant, RunID: d.need(attrWaitRun), CallID: d.need(attrWaitCall)}, ID: d.need(attrWaitID),
		Token: ledger.Secret(d.str(attrBell)), Execution: d.str(attrExecution),
		ParkedAt: d.time(attrParkedAt), RungAt: d.time(attrRungAt), How: d.str(attrHow),
	}
	if d.number(attrSchema) != schemaVersion {
		d.fail("schema version is unknown")
	}
	if d.wrong != "" {
		return ledger.Wait{}, fmt.Errorf("dynamoledger: a wait of %s: %w: %s", w.Key, ledger.ErrCorrupt, d.wrong)
	}
	return w, nil
}

func checkWait(w ledger.Wait) error {
	if err := w.Key.Check(); err != nil {
		return fmt.Errorf("dynamoledger: wait: %w", err)
	}
	if w.ID == "" {
		return fmt.Errorf("dynamoledger: wait: %w: no id", ledger.ErrInvalid)
	}
	return nil
}
