package dynamoledger

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// Placeholders of updates that are not named after their attribute.
const (
	theOne   = ":one"
	theEmpty = ":empty"
	theEntry = ":entry"
	theIDs   = ":ids"
)

// update collects the actions of an UpdateItem.
type update struct {
	set    []byte
	remove []byte
	add    []byte
	values item
}

func newUpdate() *update {
	return &update{set: make([]byte, 0, 600), remove: make([]byte, 0, 200), values: make(item, 14)}
}

func also(clause []byte, keyword string) []byte {
	if len(clause) == 0 {
		return append(clause, keyword...)
	}
	return append(clause, ", "...)
}

// put sets an attribute, or removes it if v is nil.
func (u *update) put(name string, v types.AttributeValue) {
	if v == nil {
		u.remove = append(also(u.remove, " REMOVE "), ref(name)...)
		return
	}
	u.assign(name, placeholder(name))
	u.values[placeholder(name)] = v
}

func (u *update) assign(name string, value ...string) {
	u.set = append(also(u.set, "SET "), ref(name)...)
	u.set = append(u.set, " = "...)
	for _, part := range value {
		u.set = append(u.set, part...)
	}
}

func (u *update) increase(name string) {
	u.values[theOne] = one
	u.assign(name, name, " + ", theOne)
}

func (u *update) appendTo(list string, e ledger.Entry) {
	u.values[theEmpty] = &types.AttributeValueMemberL{}
	u.values[theEntry] = entries([]ledger.Entry{e})
	u.assign(list, "list_append(if_not_exists(", list, ", ", theEmpty, "), ", theEntry, ")")
}

func (u *update) text() string {
	return strings.TrimPrefix(string(slices.Concat(u.set, u.remove, u.add)), " ")
}

var one = number(1)

// placeholder is what stands for an attribute's value in an expression.
func placeholder(name string) string {
	if known, ok := placeholders[name]; ok {
		return known
	}
	return ":" + name
}

var placeholders = func() map[string]string {
	all := make(map[string]string)
	know := func(name string, _ types.AttributeValue) { all[name] = ":" + name }
	putAttempt(ledger.Attempt{}, know)
	putApproval(ledger.Approval{}, know)
	putUndo(ledger.Undo{}, know)
	putOutcome(ledger.Outcome{}, know)
	for _, name := range append([]string{
		attrStatus, attrLastWrite, attrLastNote, attrDecisions, attrEvidence, attrNoted, names.AttrIndexPartition, names.AttrIndexSort, names.AttrTTL,
	}, flagNames...) {
		know(name, nil)
	}
	return all
}()

// The attributes that expressions call by a placeholder: the status, which every
// condition asks for, and the time to live, which every move sets or removes.
var (
	moveNames = map[string]string{"#" + attrStatus: attrStatus, "#" + names.AttrTTL: names.AttrTTL}
	noteNames = map[string]string{"#" + attrStatus: attrStatus}
)

// updateOf returns the write of m as it was worked out on assumed: next is the
// record after it, with its result placed.
func (s *Store) updateOf(m ledger.Move, assumed, next ledger.Record, spilled bool) *dynamodb.UpdateItemInput {
	u := newUpdate()
	rows := m.Rows()
	expressionNames := moveNames
	if m.NotesOnly() {
		expressionNames = noteNames
		u.increase(attrRev)
		u.put(attrLastNote, str(next.LastNote))
	} else {
		s.putMove(u, m, rows[0], next)
	}
	putEntries(u, m.Change(), assumed, spilled)
	cond := conditionOf(m, rows, assumed, spilled)
	cond.fill(u.values, m, assumed)
	expression := u.text()
	return &dynamodb.UpdateItemInput{
		TableName: s.table, Key: callKey(m.Key()), UpdateExpression: &expression, ConditionExpression: &cond.text,
		ExpressionAttributeNames: expressionNames, ExpressionAttributeValues: u.values,
		ReturnValues: types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// putMove writes the state that the move leads to and the groups that it
// changes; all else stays as it is stored, read or not. The rows of one move set
// and clear the same flags, so that any of them will do.
func (s *Store) putMove(u *update, m ledger.Move, row ledger.Row, next ledger.Record) {
	u.put(attrStatus, str(string(next.Status)))
	for _, flag := range row.Set.Names() {
		u.put(flag, truth(true))
	}
	for _, flag := range row.Clear.Names() {
		u.put(flag, nil)
	}
	u.increase(attrVersion)
	u.put(attrLastWrite, str(next.LastWrite))
	c := m.Change()
	if c.Attempt != nil {
		putAttempt(next.Attempt, u.put)
	}
	if c.Approval != nil {
		putApproval(next.Approval, u.put)
	}
	if c.Undo != nil {
		putUndo(next.Undo, u.put)
	}
	if c.Outcome != nil {
		putOutcome(next.Outcome, u.put)
	}
	s.putListing(next, u.put)
}

// putEntries appends the move's decision or evidence. Where older entries were
// spilled, the whole list is written.
func putEntries(u *update, c ledger.Change, assumed ledger.Record, spilled bool) {
	switch {
	case c.Decision != nil && spilled:
		u.put(attrDecisions, entries(append(staying(assumed.Decisions, keptDecisions), *c.Decision)))
	case c.Decision != nil:
		u.appendTo(attrDecisions, *c.Decision)
	case c.Evidence != nil && spilled:
		evidence := append(staying(assumed.Evidence, keptEvidence), *c.Evidence)
		u.put(attrEvidence, entries(evidence))
		u.put(attrNoted, noted(evidence))
	case c.Evidence != nil:
		u.appendTo(attrEvidence, *c.Evidence)
		u.values[theIDs] = noted([]ledger.Entry{*c.Evidence})
		u.add = append(u.add, " ADD "+attrNoted+" "+theIDs...)
	}
}
