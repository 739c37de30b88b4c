package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/onceward/onceward/middleware/ledger"
)

// MaxAnswer is how many bytes an answer may have; a result that does not fit is
// answered as a [ResultRef].
const MaxAnswer = 200 << 10

// longestFunction is the longest that AWS Lambda lets a function run.
const longestFunction = 15 * time.Minute

// served is a bound tool, asked by envelope.
type served interface {
	about() *spec
	serve(ctx context.Context, e Envelope) ending
}

// Handler returns a Lambda handler that answers the envelope of version 1 for
// these tools, or an error that names every tool it can't guard. An outcome is
// never a Lambda error. A [Tool].Timeout above 15 minutes is refused here, since
// no function runs longer. It is safe for concurrent use.
func (g *Guard) Handler(tools ...AnyTool) (lambda.Handler, error) {
	h := handler{guard: g, tools: map[string]served{}}
	var errs []error
	for _, t := range tools {
		if t == nil {
			errs = append(errs, errors.New("once: Handler: a tool is nil"))
			continue
		}
		s, err := t.bind(g)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		name := s.about().name
		if err := s.about().schema.servable(); err != nil {
			errs = append(errs, fmt.Errorf("once: tool %q: In: %w", name, err))
		}
		if d := s.about().timeout; d > longestFunction {
			errs = append(errs, fmt.Errorf("once: tool %q: Timeout: is %v, longer than any function runs, %v", name, d, longestFunction))
		}
		if h.tools[name] != nil {
			errs = append(errs, fmt.Errorf("once: tool %q: declared twice", name))
		}
		h.tools[name] = s
	}
	if len(tools) == 0 {
		errs = append(errs, errors.New("once: Handler: no tools"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return h, nil
}

type handler struct {
	guard *Guard
	tools map[string]served
}

// Invoke implements [lambda.Handler].
func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	e, err := DecodeEnvelope(payload)
	if err != nil {
		return h.refuse(ctx, e, err)
	}
	tool := h.tools[e.Call.Tool]
	switch e.Mode {
	case ModeDescribe:
		return json.Marshal(h.manifest())
	case ModeInspect, ModePark:
		return h.refuse(ctx, e, refusal(e.Key(), codeWrongFunction, "mode: %s belongs to the call desk", e.Mode))
	case ModeInvoke, ModeReconcile, ModeClose, ModeCompensate:
	}
	if tool == nil {
		return h.refuse(ctx, e, refusal(e.Key(), codeUnknownTool, "call.tool: is not served here; describe lists the tools"))
	}
	end := tool.serve(ctx, e)
	return end.encode(e.Reply)
}

// refuse answers an envelope that is no call of a tool served here.
func (h handler) refuse(ctx context.Context, e Envelope, err error) ([]byte, error) {
	c := invocation{g: h.guard}
	r := refused(ctx, c.load, err)
	if toolName(e.Call.Tool) {
		r.Tool = e.Call.Tool
	}
	return ending{report: r}.encode(e.Reply)
}

// encode writes the answer: whole if it fits, else with the result named by its
// digest.
func (e ending) encode(reply Reply) ([]byte, error) {
	a := e.report.answer(reply)
	if reply != ReplyBrief {
		a.Result = e.result
	}
	out, err := json.Marshal(a)
	if err != nil || len(out) <= MaxAnswer {
		return out, err
	}
	// The model's sentence repeats the result.
	a.ModelSays = strings.Replace(a.ModelSays, string(e.result), fmt.Sprintf("(%d bytes, too long to be shown)", len(e.result)), 1)
	if out, err = json.Marshal(a); err != nil || len(out) <= MaxAnswer {
		return out, err
	}
	a.Result, a.ResultRef = nil, &ResultRef{Digest: ledger.DigestOf(e.result), Bytes: len(e.result)}
	return json.Marshal(a)
}

func (t Tool[In, Out]) bind(g *Guard) (served, error) {
	b, err := Bind(g, t)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Bound[In, Out]) about() *spec { return b.spec }

// serve answers an envelope in one of the modes that a tool has.
func (b *Bound[In, Out]) serve(ctx context.Context, e Envelope) ending {
	req := e.request()
	if e.Mode == ModeClose {
		c := b.call(req, arguments[In]{})
		c.brief = true
		return c.close(ctx)
	}
	given := e.arguments()
	if b.spec.needsNoArguments(e.Mode, given != nil) {
		c := b.call(req, arguments[In]{})
		c.unargued, c.brief, c.encode = true, e.Reply == ReplyBrief, true
		return c.ask(ctx, e.Mode, nil)
	}
	args, err := decodeArguments(b.spec, b.tool.Normalize, given)
	c := b.call(req, args)
	c.brief, c.encode = e.Reply == ReplyBrief, true
	refused := c.refuseArguments(err)
	if given == nil {
		refused = refusal(c.key, codeNoArguments, "call.arguments: is missing, and so is call.arguments_json")
	}
	return c.ask(ctx, e.Mode, refused)
}

func (s *spec) needsNoArguments(mode Mode, given bool) bool {
	return mode == ModeReconcile && s.looksByKey && !given || mode == ModeCompensate && s.undoesByKey
}

// ask answers a request that has its arguments, or needs none.
func (c *invocation) ask(ctx context.Context, mode Mode, refused *Error) ending {
	switch mode { //nolint:exhaustive // the others have been answered by then
	case ModeReconcile:
		return c.reconcile(ctx, refused)
	case ModeCompensate:
		return c.compensate(ctx, refused)
	}
	return c.invoke(ctx, refused)
}

func (e Envelope) request() Request {
	return Request{
		Tenant: e.Tenant, RunID: e.Run.ID, RunStartedAt: e.Run.StartedAt, ParentRunID: e.Run.Parent, Agent: e.Run.Agent,
		CallID: e.Call.ID, Turn: e.Call.Turn, Attempt: e.Call.Attempt,
		Execution: e.From.Execution, Subject: e.Principal.Subject, Permissions: e.Principal.Permissions, Policy: e.Policy.OnIndeterminate,
	}
}

// Manifest is what a describe is answered with: what a model may be told of the
// function's tools.
type Manifest struct {
	Onceward int            `json:"onceward"`
	Tools    []ManifestTool `json:"tools"`
}

// ManifestTool describes one tool. Approval says that a person has to approve
// each call, Undo that the tool can undo one when a person asks for it.
type ManifestTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Effect      Class           `json:"effect"`
	Approval    bool            `json:"approval"`
	Undo        bool            `json:"undo"`
	Arguments   json.RawMessage `json:"arguments"` // JSON Schema
}

func (h handler) manifest() Manifest {
	m := Manifest{Onceward: EnvelopeVersion, Tools: make([]ManifestTool, 0, len(h.tools))}
	for _, s := range h.tools {
		t := s.about()
		m.Tools = append(m.Tools, ManifestTool{Name: t.name, Description: t.description, Effect: t.class, Approval: t.approveWithin > 0, Undo: t.undoes, Arguments: t.schema.raw})
	}
	slices.SortFunc(m.Tools, func(a, b ManifestTool) int { return strings.Compare(a.Name, b.Name) })
	return m
}
