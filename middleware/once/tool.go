package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// Class says what a tool may do to the world. It alone sets how often the tool
// runs. There is no default: a tool without a Class can't be bound.
type Class string

// The classes. Only Read is ever tried again by the guard.
const (
	Read        Class = "read"        // changes nothing
	Write       Class = "write"       // changes what we own
	External    Class = "external"    // changes somebody else's system
	Destructive Class = "destructive" // can't be undone
)

// Tool declares one tool. Name, Class and Run are required. A Tool is copied
// when it is bound to a [Guard]; later changes have no effect. Its functions
// must be safe for concurrent use. Calls are told apart by In as JSON, so In
// must not hold a [ledger.Secret]; of types that marshal themselves, those are
// best that can be read back. Where a part of the arguments does not stand in
// their JSON, an envelope's are told apart as they came, and [Bound.Do] refuses.
type Tool[In, Out any] struct {
	// Name is what the model calls: 1-64 of a-z, 0-9 and _.
	Name string

	// Description is what the model reads.
	Description string

	// Class says what the tool may do.
	Class Class

	// Run performs the call. Its context carries the [Call] and ends at the
	// call's hard deadline. It must not change what its input points to. An
	// error that is not marked with [NotAttempted], [Rejected] or [Landed] means
	// "unknown", unless the tool is a Read.
	Run func(ctx context.Context, in In) (Out, error)

	// Reconcile looks the effect of an unknown call up. It must only read and
	// may run often. Return true with the result if the effect is there, false
	// if it is not, an error if you can't tell. Defaults to none: a person settles.
	Reconcile func(ctx context.Context, rec ledger.Record, in In) (Out, bool, error)

	// ReconcileByKey says that Reconcile needs only the record, so that it can
	// be asked without the arguments, by an operator for example; in is then the
	// zero In. Defaults to false.
	ReconcileByKey bool

	// Compensate undoes a call when a person asks for it, and never otherwise. It
	// runs once, as a call of its own: the [Call] in ctx has the undo's key, rec is
	// the call to undo with its result, if that is kept. Its external id may be the
	// word of a person who settled it, and if rec is indeterminate there is none:
	// Compensate must look up by rec.Key what there is to undo, and undo only that;
	// return [Rejected] if there is nothing. Errors mean what they mean for Run.
	// A read and what is destructive have none. Defaults to none: the tool can't
	// undo.
	Compensate func(ctx context.Context, rec ledger.Record, in In) error

	// CompensateByKey says that Compensate needs only the record. It is then asked
	// without the arguments, also if some are given: in is the zero In, and the call
	// can be undone after a deploy that changed what they mean. Defaults to false.
	CompensateByKey bool

	// ExternalID names what Run or Reconcile made, in the receiver's words.
	// Defaults to none.
	ExternalID func(Out) string

	// Normalize fills in defaults and checks the arguments before they are
	// fingerprinted. An error refuses the call and its text is told to the
	// caller; nothing is recorded. Defaults to none.
	Normalize func(*In) error

	// Authorize allows a call, on every attempt and replay. An error refuses
	// it; its text goes to Observers only. An undo is not asked here: a person
	// decides on it, and their word on the call's record is what allows it.
	// Defaults to Permission alone.
	Authorize func(ctx context.Context, req Request, in In) error

	// Permission must be among the caller's, but for an undo. Defaults to none
	// needed.
	Permission string

	// Summary is what people see of the arguments; 160 bytes are kept. Keep
	// secrets out. Defaults to the arguments' names.
	Summary func(In) string

	// Schema is the JSON Schema of the arguments that the model sees. Defaults
	// to what In implies, by its json and jsonschema tags.
	Schema json.RawMessage

	// Downstream is what the receiver promises. The zero value promises nothing.
	Downstream Downstream

	// ApproveWithin makes a person approve each call within this time. Defaults
	// to 0: no approval.
	ApproveWithin time.Duration

	// ApprovalPolicy is the epoch of the rules that approvals are given under:
	// raise it and what was approved before, and has not started, has to be
	// approved again. Defaults to 0.
	ApprovalPolicy int

	// Timeout bounds one attempt. Defaults to 10 s; [Guard.Handler] takes at most
	// 15 min.
	Timeout time.Duration

	// Attempts bounds the tries of a Read. Defaults to 3; anything but 0 and 1
	// is refused for the other classes.
	Attempts int

	// Journal records a Read once, after it ran, so that a repeat is answered
	// with the same result; calls that ask for brief answers always are. The
	// other classes are always recorded. Defaults to false.
	Journal bool

	// RerunExpired lets a Read run although it comes later than records are
	// kept; the other classes are then refused. Defaults to false.
	RerunExpired bool

	// Version is part of the fingerprint: raise it when the same arguments come
	// to mean something else. What a person approved or granted under another
	// version then does not start, and neither does a named next attempt; a call
	// that ran is still answered to its repeats. Defaults to 0.
	Version int
}

// Downstream is what a receiver promises about keys and look-ups.
type Downstream struct {
	// KeyWindow is how long the receiver honours a key; later, only a person's
	// grant runs a call again. Defaults to 0: no limit known.
	KeyWindow time.Duration

	// AbsenceIsProof says that a look-up which finds nothing proves that nothing
	// happened, once SettleDelay is over. Defaults to false.
	AbsenceIsProof bool

	// SettleDelay is how long after its sender's deadline a request may still
	// take effect or stay invisible. Defaults to 1 min.
	SettleDelay time.Duration
}

const (
	defaultTimeout     = 10 * time.Second
	defaultSettleDelay = time.Minute
	defaultReads       = 3
)

// AnyTool is a [Tool] of any input and output. Nothing else implements it.
type AnyTool interface {
	bind(g *Guard) (served, error)
}

// spec is what the guard needs to know of a tool, without its types.
type spec struct {
	name, description string
	class             Class
	permission        string
	looks             bool
	looksByKey        bool
	undoes            bool
	undoesByKey       bool
	downstream        Downstream
	approveWithin     time.Duration
	approvalPolicy    int
	timeout           time.Duration
	attempts          int
	journal           bool
	rerunExpired      bool
	version           int
	schema            *argumentSchema
	input             shape
}

// spec checks the tool's fields and fills in their defaults.
func (t Tool[In, Out]) spec(g *Guard) (*spec, error) {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("once: tool %q: %s: %s", t.Name, field, fmt.Sprintf(format, args...)))
	}
	if !toolName(t.Name) {
		bad("Name", "want 1 to 64 of a-z, 0-9 and _")
	}
	if t.Run == nil {
		bad("Run", "is required")
	}
	t.checkClass(bad)
	if t.Reconcile == nil && (t.Downstream.AbsenceIsProof || t.ReconcileByKey) {
		bad("Reconcile", "is required by Downstream.AbsenceIsProof and ReconcileByKey")
	}
	t.checkUndo(bad)
	if longest := g.opts.Retention.LongestRun; t.ApproveWithin > longest {
		bad("ApproveWithin", "is %v, longer than Options.Retention.LongestRun, %v", t.ApproveWithin, longest)
	}
	for field, d := range map[string]time.Duration{
		"ApproveWithin": t.ApproveWithin, "Timeout": t.Timeout,
		"Downstream.KeyWindow": t.Downstream.KeyWindow, "Downstream.SettleDelay": t.Downstream.SettleDelay,
	} {
		if d < 0 {
			bad(field, "is %v; want 0 or more", d)
		}
	}
	if t.Attempts < 0 {
		bad("Attempts", "is %d; want 0 or more", t.Attempts)
	}
	schema, err := schemaOf[In](t.Schema)
	if err != nil {
		bad("Schema", "%v", err)
	}
	input := shapeOf(reflect.TypeFor[In]())
	if err := input.secretFault(); err != nil {
		bad("In", "%v", err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s := &spec{
		name: t.Name, description: t.Description, class: t.Class, permission: t.Permission, looks: t.Reconcile != nil, looksByKey: t.ReconcileByKey,
		undoes: t.Compensate != nil, undoesByKey: t.CompensateByKey,
		downstream: t.Downstream, approveWithin: t.ApproveWithin, approvalPolicy: t.ApprovalPolicy, timeout: t.Timeout,
		attempts: t.Attempts, journal: t.Journal, rerunExpired: t.RerunExpired, version: t.Version, schema: schema, input: input,
	}
	s.fillIn()
	return s, nil
}

func (t Tool[In, Out]) checkClass(bad func(field, format string, args ...any)) {
	switch t.Class {
	case Read:
		if t.ApproveWithin != 0 {
			bad("ApproveWithin", "class read needs no approval")
		}
	case Write, External, Destructive:
		if t.Attempts > 1 {
			bad("Attempts", "is %d; class %s gets exactly one", t.Attempts, t.Class)
		}
		if t.RerunExpired {
			bad("RerunExpired", "class %s never runs again after its record is gone", t.Class)
		}
	case "":
		bad("Class", "is required: once.Read, Write, External or Destructive")
	default:
		bad("Class", "is %q; want once.Read, Write, External or Destructive", t.Class)
	}
}

func (t Tool[In, Out]) checkUndo(bad func(field, format string, args ...any)) {
	switch {
	case t.Compensate == nil && t.CompensateByKey:
		bad("Compensate", "is required by CompensateByKey")
	case t.Compensate != nil && t.Class == Read:
		bad("Compensate", "class read changes nothing that could be undone")
	case t.Compensate != nil && t.Class == Destructive:
		bad("Compensate", "class destructive can't be undone; a tool that can is write or external")
	}
}

func (s *spec) fillIn() {
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	if s.downstream.SettleDelay == 0 {
		s.downstream.SettleDelay = defaultSettleDelay
	}
	if s.attempts == 0 {
		s.attempts = 1
		if s.class == Read {
			s.attempts = defaultReads
		}
	}
}

func toolName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
