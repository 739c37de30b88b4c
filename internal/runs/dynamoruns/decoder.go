package dynamoruns

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/runs"
)

// decoder reads an item's attributes and remembers which of them do not say
// what they must.
type decoder struct {
	item  item
	wrong []string
}

func (d *decoder) need(ok bool, name string) {
	if !ok {
		d.wrong = append(d.wrong, name)
	}
}

// head checks what every item begins with.
func (d *decoder) head(kind string) {
	d.need(d.number(attrSchema) == schema, attrSchema)
	d.need(d.text(attrKind) == kind, attrKind)
}

func (d *decoder) text(name string) string {
	value, ok := d.item[name].(*types.AttributeValueMemberS)
	if !ok {
		d.need(d.item[name] == nil, name)
		return ""
	}
	return value.Value
}

func (d *decoder) number(name string) int64 {
	value, ok := d.item[name].(*types.AttributeValueMemberN)
	if !ok {
		d.need(false, name)
		return 0
	}
	n, err := strconv.ParseInt(value.Value, 10, 64)
	d.need(err == nil, name)
	return n
}

// milliseconds is zero where there is none, as in an item of an older version.
func (d *decoder) milliseconds(name string) time.Duration {
	if d.item[name] == nil {
		return 0
	}
	return time.Duration(d.number(name)) * time.Millisecond
}

func (d *decoder) instant(name string) time.Time {
	s := d.text(name)
	if s == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	d.need(err == nil, name)
	return at
}

func (d *decoder) document(name string, into any) {
	d.need(json.Unmarshal([]byte(d.text(name)), into) == nil, name)
}

// err returns [runs.ErrCorrupt] with the names of the attributes, never their
// values.
func (d *decoder) err(what string) error {
	if len(d.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", runs.ErrCorrupt, what, strings.Join(d.wrong, ", "))
}
