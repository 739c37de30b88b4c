package dynamoruns

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

type item = map[string]types.AttributeValue

// The sort keys.
const (
	sortRun  = "RUN"
	lastTurn = 999_999
)

func sortTurn(n int) string { return fmt.Sprintf("TURN#%06d", n) }

// schema is the version of both items; another one is not read.
const schema = 1

// The attributes that expressions name, or that both items have.
const (
	attrSchema  = "schema"
	attrKind    = "kind"
	attrVersion = "version"
	attrHeard   = "heard"
)

// The kinds, for whoever reads the table.
const (
	kindRun   = "run"
	kindTurn  = "turn"
	kindInput = "input"
)

// inlineInput is how many bytes of an input lie in the run's own item, which is
// written, and copied into the index, with every turn.
const inlineInput = 1 << 10

// inputBeside returns the sort key of an input that is too long for the run's
// item, "" if it isn't. It names the content, so that of two executions which
// begin one run with different inputs neither spoils the other's.
func inputBeside(r runs.Run) string {
	if len(r.Input) <= inlineInput {
		return ""
	}
	return "INPUT#" + string(ledger.DigestOf(r.Input))
}

func encodeInput(r runs.Run) item {
	it := key(r.Key(), inputBeside(r))
	it[attrKind], it[attrSchema], it["input"] = text(kindInput), number(schema), text(string(r.Input))
	return it
}

func decodeInput(id runs.ID, it item) (json.RawMessage, error) {
	d := decoder{item: it}
	d.head(kindInput)
	input := d.text("input")
	d.need(inputBeside(runs.Run{Input: json.RawMessage(input)}) == d.text(names.AttrSort), "input")
	return json.RawMessage(input), d.err("input of run " + id.String())
}

// shards spread a tenant's running runs over partitions of the index that hold
// nothing else, so that the list of unsettled calls costs the same however many
// runs there are.
const (
	shards   = 8
	runShard = "#run#"
)

func partition(id runs.ID) string { return tenant(id) + "#" + id.Run }

// noTenant stands for the empty tenant; no tenant can be named so.
const noTenant = "."

func tenant(id runs.ID) string {
	if id.Tenant == "" {
		return noTenant
	}
	return id.Tenant
}

func key(id runs.ID, sort string) item {
	return item{names.AttrPartition: text(partition(id)), names.AttrSort: text(sort)}
}

func (s *Store) encodeRun(r runs.Run) item {
	it := key(r.Key(), sortRun)
	for name, value := range map[string]string{
		attrKind: kindRun, "status": string(r.Status), "agent": r.Agent, "subject": r.Subject, "policy": string(r.Policy), "driver": r.Driver,
		"previous": r.Previous, "machine": r.Machine, "last_write": r.LastWrite,
		"started_at": instant(r.StartedAt), "ended_at": instant(r.EndedAt), "written_at": instant(r.WrittenAt),
	} {
		if value != "" {
			it[name] = text(value)
		}
	}
	it[attrSchema], it[attrVersion] = number(schema), number(r.Version)
	it["generation"], it["turn"] = number(int64(r.Generation)), number(int64(r.Turn))
	it["active_ms"], it["active_limit_ms"] = number(r.Active.Milliseconds()), number(r.ActiveLimit.Milliseconds())
	for name, value := range map[string]any{"failure": r.Failure, "step": r.Step, "progress": r.Progress} {
		it[name] = mustDocument(value)
	}
	if beside := inputBeside(r); beside != "" {
		it["input_at"] = text(beside)
	} else if len(r.Input) > 0 {
		it["input"] = text(string(r.Input))
	}
	if r.Ended() {
		it[names.AttrTTL] = number(s.expiry(r))
		return it
	}
	// Listed until it has ended, so that no run without a driver is forgotten.
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.ID)) // a hash takes everything
	it[names.AttrIndexPartition] = text(fmt.Sprintf("%s%s%d", tenant(r.Key()), runShard, h.Sum32()%shards))
	it[names.AttrIndexSort] = text(fmt.Sprintf("%013d#%s", r.StartedAt.UnixMilli(), r.ID))
	return it
}

// decodeRun also returns where the input lies, if not here.
func decodeRun(id runs.ID, it item) (r runs.Run, inputAt string, err error) {
	d := decoder{item: it}
	d.head(kindRun)
	r = runs.Run{
		Tenant: id.Tenant, ID: id.Run, Agent: d.text("agent"), Subject: d.text("subject"), StartedAt: d.instant("started_at"), EndedAt: d.instant("ended_at"),
		Status: runs.Status(d.text("status")), Policy: ledger.Policy(d.text("policy")), Generation: int(d.number("generation")),
		Driver: d.text("driver"), Previous: d.text("previous"), Machine: d.text("machine"), Turn: int(d.number("turn")),
		Version: d.number(attrVersion), LastWrite: d.text("last_write"), WrittenAt: d.instant("written_at"),
		Active: d.milliseconds("active_ms"), ActiveLimit: d.milliseconds("active_limit_ms"),
	}
	if input := d.text("input"); input != "" {
		r.Input = json.RawMessage(input)
	}
	d.document("failure", &r.Failure)
	d.document("step", &r.Step)
	d.document("progress", &r.Progress)
	d.need(r.Version > 0, attrVersion)
	d.need(r.Driver != "", "driver")
	d.need(r.Status == runs.Running || r.Ended(), "status")
	return r, d.text("input_at"), d.err("run " + id.String())
}

func encodeTurn(id runs.ID, t runs.Turn) (item, error) {
	it := key(id, sortTurn(t.Number))
	it[attrKind], it[attrSchema] = text(kindTurn), number(schema)
	it["number"], it["final"] = number(int64(t.Number)), &types.AttributeValueMemberBOOL{Value: t.Final}
	if t.Says != "" {
		it["says"] = text(t.Says)
	}
	if !t.At.IsZero() {
		it["at"] = text(instant(t.At))
	}
	calls, err := document(t.Calls)
	it["calls"] = calls
	return it, err
}

func decodeTurn(id runs.ID, it item) (runs.Turn, error) {
	d := decoder{item: it}
	d.head(kindTurn)
	t := runs.Turn{Number: int(d.number("number")), Says: d.text("says"), At: d.instant("at")}
	if final, ok := it["final"].(*types.AttributeValueMemberBOOL); ok {
		t.Final = final.Value
	}
	d.document("calls", &t.Calls)
	if _, ok := it[attrHeard]; ok {
		d.document(attrHeard, &t.Heard)
		d.need(len(t.Heard) == len(t.Calls), attrHeard)
	}
	d.need(t.Number > 0, "number")
	return t, d.err(fmt.Sprintf("turn of run %s", id))
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// document stores lists as JSON text: they are read whole or not at all.
func document(v any) (types.AttributeValue, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("dynamoruns: encode: %w", err)
	}
	return text(string(b)), nil
}

// mustDocument is document for types that always encode.
func mustDocument(v any) types.AttributeValue {
	doc, err := document(v)
	if err != nil {
		panic(err)
	}
	return doc
}
