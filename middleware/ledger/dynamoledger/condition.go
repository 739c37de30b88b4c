package dynamoledger

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// Placeholders of conditions. They begin with "if", so that they never meet
// those of the update that they guard.
const (
	ifVersion = ":if_version"
	ifRev     = ":if_rev"
	ifToken   = ":if_token"
	ifNote    = ":if_note"
	ifRoom    = ":if_room"
	ifIs      = ":if_" // and a status
)

// absent is the condition of every new item.
const absent = "attribute_not_exists(" + names.AttrPartition + ")"

// ref is how an expression names an attribute: as it is, or by a placeholder
// where DynamoDB reserves the word.
func ref(name string) string {
	switch name {
	case attrStatus:
		return "#" + attrStatus
	case attrSchema:
		return "#" + attrSchema
	case names.AttrTTL:
		return "#" + names.AttrTTL
	}
	return name
}

func there(name string) string    { return "attribute_exists(" + ref(name) + ")" }
func notThere(name string) string { return "attribute_not_exists(" + ref(name) + ")" }

// condition is the proof of a move as text. Statuses and bounds are the same
// for every move of its shape; versions and tokens are the move's own.
type condition struct {
	text  string
	fixed item
	own   []string
}

// shape is all of a move that its condition's text depends on.
type shape struct {
	row     string // the first of its rows
	rows    int
	status  ledger.Status // pinned, or none
	pinned  ledger.Flags
	spilled bool
	notes   bool
}

// conditions holds the conditions that have been built, by shape. There are as
// many as rows, a few times over.
var conditions sync.Map

// conditionOf returns what must hold of the stored item for m to be applied as it
// was worked out on assumed: the proof, a From state of one of the move's rows,
// and whatever decides the listing of the state that it leads to.
func conditionOf(m ledger.Move, rows []ledger.Row, assumed ledger.Record, spilled bool) condition {
	open, same := left(m.Proof().Kind, rows)
	sh := shape{
		row: rows[0].Name, rows: len(rows), pinned: open & assumed.Flags,
		spilled: spilled, notes: m.Change().Evidence != nil,
	}
	if same {
		sh.status = assumed.Status
	}
	if built, ok := conditions.Load(sh); ok {
		return built.(condition) //nolint:forcetypeassert // nothing else is stored
	}
	built := build(m.Proof().Kind, rows, open, sh)
	conditions.Store(sh, built)
	return built
}

// guard collects the parts of a condition.
type guard struct {
	parts []string
	fixed item
	own   []string
}

func (g *guard) and(part string) { g.parts = append(g.parts, part) }

func (g *guard) value(name string, v types.AttributeValue) string {
	g.fixed[name] = v
	return name
}

func (g *guard) ours(name string) string {
	if !slices.Contains(g.own, name) {
		g.own = append(g.own, name)
	}
	return name
}

func build(proof ledger.ProofKind, rows []ledger.Row, open ledger.Flags, sh shape) condition {
	g := &guard{fixed: make(item)}
	switch proof {
	case ledger.ByAbsence:
		return condition{text: absent}
	case ledger.ByVersion:
		g.and(there(names.AttrPartition))
		g.and(attrVersion + " = " + g.ours(ifVersion))
	case ledger.ByToken:
		g.and(there(names.AttrPartition))
		g.and(attrToken + " = " + g.ours(ifToken))
	case ledger.ByEarlierToken:
		g.and(there(names.AttrPartition))
		g.and("contains(" + attrEarlier + ", " + g.ours(ifToken) + ")")
	case ledger.ByExistence:
		g.and(there(names.AttrPartition))
	}
	if sh.notes && proof != ledger.ByVersion {
		g.unnoted()
	}
	g.from(rows)
	g.pin(open, sh)
	switch {
	case sh.spilled:
		g.unchanged(proof)
	case sh.notes:
		g.room()
	}
	return condition{strings.Join(g.parts, " AND "), g.fixed, g.own}
}

// fill adds the values that the condition names.
func (c condition) fill(values item, m ledger.Move, assumed ledger.Record) {
	maps.Copy(values, c.fixed)
	for _, name := range c.own {
		switch name {
		case ifVersion:
			values[name] = number(assumed.Version)
		case ifRev:
			values[name] = number(assumed.Rev)
		case ifToken:
			values[name] = text(string(m.Proof().Token))
		case ifNote:
			values[name] = text(m.Change().Stamp.WriteID)
		}
	}
}

// text is str for a value that a condition needs even when it is empty.
func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// from says that the item is in a From state of one of the rows.
func (g *guard) from(rows []ledger.Row) {
	alternatives := make([]string, len(rows))
	for i, row := range rows {
		parts := []string{g.in(row.From)}
		for _, flag := range row.With.Names() {
			parts = append(parts, there(flag))
		}
		for _, flag := range row.Without.Names() {
			parts = append(parts, notThere(flag))
		}
		alternatives[i] = strings.Join(parts, " AND ")
	}
	if len(alternatives) == 1 {
		g.and(alternatives[0])
		return
	}
	g.and("((" + strings.Join(alternatives, ") OR (") + "))")
}

func (g *guard) in(statuses []ledger.Status) string {
	all := make([]string, len(statuses))
	for i, status := range statuses {
		all[i] = g.value(ifIs+string(status), text(string(status)))
	}
	if len(all) == 1 {
		return ref(attrStatus) + " = " + all[0]
	}
	return ref(attrStatus) + " IN (" + strings.Join(all, ", ") + ")"
}

// left returns the flags that the proof leaves open and the listing depends on,
// and whether it leaves the status open too. A version leaves nothing open, and a
// note changes nothing.
func left(proof ledger.ProofKind, rows []ledger.Row) (open ledger.Flags, same bool) {
	if proof == ledger.ByVersion || proof == ledger.ByExistence {
		return 0, false
	}
	for _, row := range rows {
		open |= listingFlags &^ (row.With | row.Without | row.Set | row.Clear)
		same = same || row.Same
	}
	return open, same
}

// pin holds fast what is left open. A token may be met on a record that was
// flagged since it was read, and then the index keys and the time to live that go
// with the move are not those that we worked out. Such a write fails, and is
// worked out again on the record that stands.
func (g *guard) pin(open ledger.Flags, sh shape) {
	if sh.status != ledger.None {
		g.and(g.in([]ledger.Status{sh.status}))
	}
	for _, flag := range allFlags {
		switch {
		case !open.Has(flag):
		case sh.pinned.Has(flag):
			g.and(there(flag.String()))
		default:
			g.and(notThere(flag.String()))
		}
	}
}

// listingFlags are those that keep a settled call in the list.
var listingFlags = func() ledger.Flags {
	var found ledger.Flags
	for _, flag := range ledger.AllFlags() {
		if (ledger.State{Status: ledger.Completed, Flags: flag}).Unsettled() {
			found |= flag
		}
	}
	return found
}()

// unchanged says that the lists still are those whose older entries were
// spilled.
func (g *guard) unchanged(proof ledger.ProofKind) {
	if proof != ledger.ByVersion {
		g.and(attrVersion + " = " + g.ours(ifVersion))
	}
	g.and(attrRev + " = " + g.ours(ifRev))
}

// unnoted says that the move's evidence is not there yet: a request that arrives
// twice appends it once, and raises once what it proves.
func (g *guard) unnoted() {
	g.and("(" + notThere(attrNoted) + " OR NOT contains(" + attrNoted + ", " + g.ours(ifNote) + "))")
}

// room asks for a place in the list of evidence, which others may have filled. A
// decision needs no such question: its proof is the version, so its list is the
// one that was read.
func (g *guard) room() {
	g.and("(" + notThere(attrEvidence) + " OR size(" + attrEvidence + ") < " + g.value(ifRoom, number(ledger.MaxEntries)) + ")")
}
