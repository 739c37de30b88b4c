package operatorhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/onceward/onceward/internal/operator"
)

type listInput struct {
	Status string `query:"status" enum:"reserved,started,completed,failed,indeterminate,compensated" doc:"Only calls with this status; started adds those whose executor may still be at work"`
	Tool   string `query:"tool" maxLength:"64" doc:"Only calls of this tool"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The most calls on a page"`
	Cursor string `query:"cursor" maxLength:"4096" doc:"next_cursor of the page before, with the same filters"`
}

type listOutput struct{ Body operator.List }

// KeyPath is the part of a path that names a call; huma fills exported parts only.
type KeyPath struct {
	Key string `path:"key" maxLength:"255" doc:"run:call or tenant/run:call, percent-encoded" example:"run-7Q:toolu_01"`
}

type showOutput struct{ Body operator.Detail }

type runInput struct {
	RunID  string `path:"run_id" doc:"The id that the run was started with" example:"run-7Q"`
	Limit  int    `query:"limit" minimum:"1" maximum:"50" default:"20" doc:"The most turns on a page"`
	Cursor string `query:"cursor" maxLength:"4096" doc:"next_cursor of the page before, of the same run"`
}

type runOutput struct{ Body operator.Run }

type runsInput struct {
	Driver string `query:"driver" enum:"any,missing" default:"any" doc:"missing: only runs that nothing is known to drive"`
	Limit  int    `query:"limit" minimum:"1" maximum:"50" default:"20" doc:"The most runs on a page"`
	Cursor string `query:"cursor" maxLength:"4096" doc:"next_cursor of the page before, with the same filter"`
}

type runsOutput struct{ Body operator.RunList }

// RunInput says what the body of a start may hold. It is passed on as it came,
// since a run keeps its input as it was given.
type RunInput struct {
	RunID      string `json:"run_id" minLength:"1" maxLength:"60" doc:"A-Za-z0-9_-; the run's identity within the tenant"`
	Tenant     string `json:"tenant,omitempty" doc:"Your token's, or absent"`
	Agent      string `json:"agent,omitempty"`
	Principal  any    `json:"principal,omitempty" doc:"On whose behalf: subject and permissions"`
	ToolPolicy any    `json:"tool_policy,omitempty" doc:"on_indeterminate: pause, tell or fail"`
	Limits     any    `json:"limits,omitempty" doc:"active_seconds: how long the run may be active, without its waits"`
	Script     any    `json:"script" doc:"What the model says: turns and answer, or converse. Required: the only planner so far plays a script"`
}

type startInput struct {
	Body    RunInput
	RawBody []byte
}

type resumeInput struct {
	RunID string `path:"run_id" doc:"The id that the run was started with" example:"run-7Q"`
}

type drivenOutput struct {
	Status   int
	Location string `header:"Location" doc:"Where the run is read"`
	Body     operator.Driven
}

func drivenAnswer(out operator.Driven, started int, err error) (*drivenOutput, error) {
	answer := &drivenOutput{Status: http.StatusOK, Location: "/v1/runs/" + out.Run.ID, Body: out}
	if out.Started {
		answer.Status = started
	}
	return answer, err
}

// DecisionHead is what every decision's path and headers hold.
type DecisionHead struct {
	KeyPath
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"Makes a repeat of this request answer the same. Keep it for one decision; another body under it is refused."`
}

type verdictBody struct {
	Reason          string `json:"reason" minLength:"1" maxLength:"1000" pattern:"\\S" patternDescription:"more than blanks" doc:"Why; kept with the decision"`
	ExpectedVersion int64  `json:"expected_version" minimum:"1" doc:"The version of the record that you looked at"`
}

type verdictInput struct {
	DecisionHead
	Body verdictBody
}

type approvalInput struct {
	DecisionHead
	Body struct {
		Reason          string `json:"reason,omitempty" maxLength:"1000" doc:"Why; kept with the decision"`
		ExpectedVersion int64  `json:"expected_version" minimum:"1" doc:"The version of the record that you looked at"`
	}
}

type resolveInput struct {
	DecisionHead
	Body struct {
		Outcome         string          `json:"outcome" enum:"completed,failed" doc:"What you found out. There is no default."`
		Reason          string          `json:"reason" minLength:"1" maxLength:"1000" pattern:"\\S" patternDescription:"more than blanks" doc:"How you found out; the model hears it when the outcome is failed"`
		ExpectedVersion int64           `json:"expected_version" minimum:"1" doc:"The version of the record that you looked at; of a call whose executor is overdue the started record's, or the one after it"`
		Result          json.RawMessage `json:"result,omitempty" doc:"What the model shall hear as the tool's result; with completed only"`
		ExternalID      string          `json:"external_id,omitempty" maxLength:"256" doc:"The receiver's name for what was made; with completed only"`
		AllowRetry      bool            `json:"allow_retry,omitempty" doc:"Grants one more attempt under the same key; with failed only"`
	}
}

type compensateInput struct {
	DecisionHead
	Body struct {
		Reason          string `json:"reason" minLength:"1" maxLength:"1000" pattern:"\\S" patternDescription:"more than blanks" doc:"Why; kept with the decision"`
		ExpectedVersion int64  `json:"expected_version" minimum:"1" doc:"The version of the record that you looked at"`
		KnowsUnknown    bool   `json:"knows_unknown,omitempty" doc:"Your word that you know that nobody knows whether the call took effect, so that the undo may undo nothing. Required of a call whose outcome is unknown."`
	}
}

type reconcileInput struct {
	KeyPath
	Body *struct {
		Reason          string `json:"reason,omitempty" maxLength:"1000" doc:"Kept as evidence"`
		ExpectedVersion int64  `json:"expected_version,omitempty" minimum:"1" doc:"Ask only if the record is at this version"`
	}
}

type decisionOutput struct {
	Replayed string `header:"Idempotency-Replayed" doc:"true if an earlier request had stored this decision"`
	Body     operator.Decided
}

type reconcileOutput struct{ Body operator.Reconciled }

func (s *server) addReads(api huma.API) {
	add(api, operator.ReadCalls, huma.Operation{
		OperationID: "list-tool-executions", Method: http.MethodGet, Path: "/v1/tool-executions", Summary: "Calls that need somebody",
		Description: "The tenant's calls that need somebody, the longest-waiting first: unknown outcomes, approvals, executors past their deadline, unused grants, contradictions, open undos. A call that needs nobody any more is listed as run_not_woken while its parked run is not woken yet, and one that is stored in a form which can't be read as unreadable, whatever the filters. It may be seconds behind; read a call before deciding on it.",
	}, func(ctx context.Context, in *listInput) (*listOutput, error) {
		list, err := s.service.List(ctx, identityOf(ctx), operator.Filter{Status: in.Status, Tool: in.Tool, Limit: in.Limit, Cursor: in.Cursor})
		return &listOutput{list}, err
	})
	add(api, operator.ReadCalls, huma.Operation{
		OperationID: "show-tool-execution", Method: http.MethodGet, Path: "/v1/tool-executions/{key}", Summary: "One call",
		Description: "The record, every decision and piece of evidence, the result, the receiver's id and what the model heard. Read consistently.",
	}, func(ctx context.Context, in *KeyPath) (*showOutput, error) {
		detail, err := s.service.Show(ctx, identityOf(ctx), in.Key)
		return &showOutput{detail}, err
	})
	s.addRuns(api)
}

func (s *server) addRuns(api huma.API) {
	add(api, operator.ReadCalls, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: "/v1/runs", Summary: "Runs that have not ended", Tags: []string{"runs"},
		Description: "The tenant's runs that have not ended, the oldest first, with the state of the execution that drives each, looked up now. driver=missing leaves out those whose driver runs. The list may be seconds behind; a run that nothing seems to drive is read again.",
	}, func(ctx context.Context, in *runsInput) (*runsOutput, error) {
		list, err := s.service.ListRuns(ctx, identityOf(ctx), operator.RunFilter{Driver: in.Driver, Limit: in.Limit, Cursor: in.Cursor})
		return &runsOutput{list}, err
	})
	add(api, operator.DriveRuns, huma.Operation{
		OperationID: "start-run", Method: http.MethodPost, Path: "/v1/runs", Summary: "Start a run", Tags: []string{"runs"}, DefaultStatus: http.StatusCreated,
		Description: "Stores the run, then starts its execution. The body is the run's input; its tenant is that of your token. Sent again with the same input it returns the same run: 201 if this request started the execution, 200 if there was one.", MaxBodyBytes: MaxBodyBytes + 1,
	}, func(ctx context.Context, in *startInput) (*drivenOutput, error) {
		out, err := s.service.StartRun(ctx, identityOf(ctx), in.RawBody)
		return drivenAnswer(out, http.StatusCreated, err)
	})
	known := *api.OpenAPI().Paths["/v1/runs"].Post.Responses["201"]
	known.Description = "There was an execution already"
	api.OpenAPI().Paths["/v1/runs"].Post.Responses["200"] = &known
	add(api, operator.DriveRuns, huma.Operation{
		OperationID: "resume-run", Method: http.MethodPost, Path: "/v1/runs/{run_id}/resume", Summary: "Give a run a driver again", Tags: []string{"runs"}, DefaultStatus: http.StatusOK,
		Description: "Of a run that nothing drives: the execution that it names is started if it never was, else its next generation, which goes on from where the run stands. Nothing that took effect is repeated. Of two requests at once both hear the same run.", MaxBodyBytes: MaxBodyBytes + 1,
	}, func(ctx context.Context, in *resumeInput) (*drivenOutput, error) {
		out, err := s.service.ResumeRun(ctx, identityOf(ctx), in.RunID)
		return drivenAnswer(out, http.StatusOK, err)
	})
	add(api, operator.ReadCalls, huma.Operation{
		OperationID: "show-run", Method: http.MethodGet, Path: "/v1/runs/{run_id}", Summary: "One run", Tags: []string{"runs"},
		Description: "Where the run stands, what it waits on, and its turns with the state of their calls. The first page holds the newest turns, the newest last; next_cursor leads to the turns before them. Every page says where the run stands now. Read consistently, one item after the other while the run may go on.",
	}, func(ctx context.Context, in *runInput) (*runOutput, error) {
		run, err := s.service.Run(ctx, identityOf(ctx), operator.RunQuery{RunID: in.RunID, Limit: in.Limit, Cursor: in.Cursor})
		return &runOutput{run}, err
	})
}

func (s *server) addDecisions(api huma.API) {
	add(api, operator.DecideCalls, decision("resolve", "Settle an unknown call",
		"Records what became of a call whose outcome nobody knows, and wakes its run. Of several decisions one wins; the others are answered 409 with the winner. The decision stands even if the run can't be woken, see run_waiting; any further request on the call wakes it."),
		func(ctx context.Context, in *resolveInput) (*decisionOutput, error) {
			return answer(s.service.Resolve(ctx, identityOf(ctx), operator.Resolution{
				Command: in.command(in.Body.Reason, in.Body.ExpectedVersion),
				Outcome: in.Body.Outcome, Result: in.Body.Result, ExternalID: in.Body.ExternalID, AllowRetry: in.Body.AllowRetry,
			}))
		})
	add(api, operator.DecideCalls, decision("approve", "Let a reserved call start", "While its approval window is open."),
		func(ctx context.Context, in *approvalInput) (*decisionOutput, error) {
			return answer(s.service.Approve(ctx, identityOf(ctx), in.command(in.Body.Reason, in.Body.ExpectedVersion)))
		})
	verdicts := []struct {
		verb, summary, description string
		do                         func(context.Context, operator.Identity, operator.Command) (operator.Decided, error)
	}{
		{"deny", "End a reserved call", "It never runs; the model hears the reason.", s.service.Deny},
		{"withdraw", "Take back the right to run again", "Of a failed call that may be retried, with or without a grant.", s.service.Withdraw},
		{"acknowledge", "Clear a contradiction", "A late outcome said what the status denies, and somebody has looked. The status stays, unless it was the call's undo that took effect after all: then the call is compensated.", s.service.Acknowledge},
	}
	for _, v := range verdicts {
		add(api, operator.DecideCalls, decision(v.verb, v.summary, v.description), func(ctx context.Context, in *verdictInput) (*decisionOutput, error) {
			return answer(v.do(ctx, identityOf(ctx), in.command(in.Body.Reason, in.Body.ExpectedVersion)))
		})
	}
	add(api, operator.DecideCalls, decision("compensate", "Undo a call's effect",
		"Asks the tool to undo what the call did, as a call of its own under the key of the call with ~undo and a number behind. The ask is a move of the call, so that of several people one wins; the others are answered 409 with the winner. An undo that does not end at once stays open, see undo: any further request on the call, or the sweeper, carries it on, and one whose outcome is unknown is resolved under its own key. One that failed can be asked for again. Nothing is ever undone unasked."),
		func(ctx context.Context, in *compensateInput) (*decisionOutput, error) {
			return answer(s.service.Compensate(ctx, identityOf(ctx), operator.Compensation{
				Command: in.command(in.Body.Reason, in.Body.ExpectedVersion), KnowsUnknown: in.Body.KnowsUnknown,
			}))
		})
	add(api, operator.DecideCalls, decision("reconcile", "Ask the tool's look-up",
		"Invokes the tool's function once in a mode that can only read, then answers the record. If that settled the call, its run is woken. On a call that needs no look-up any more it is answered 409, carries an open undo on, and wakes a run that is not woken yet."),
		func(ctx context.Context, in *reconcileInput) (*reconcileOutput, error) {
			ask := operator.Inquiry{Key: in.Key}
			if in.Body != nil {
				ask.Reason, ask.ExpectedVersion = in.Body.Reason, in.Body.ExpectedVersion
			}
			out, err := s.service.Reconcile(ctx, identityOf(ctx), ask)
			return &reconcileOutput{out}, err
		})
}

func decision(verb, summary, description string) huma.Operation {
	return huma.Operation{
		OperationID: verb + "-tool-execution", Method: http.MethodPost, Path: "/v1/tool-executions/{key}/" + verb,
		Summary: summary, Description: description, MaxBodyBytes: MaxBodyBytes + 1, // huma refuses a body of exactly the maximum
	}
}

func (in DecisionHead) command(reason string, version int64) operator.Command {
	return operator.Command{Key: in.Key, Reason: reason, ExpectedVersion: version, IdempotencyKey: in.IdempotencyKey}
}

func answer(decided operator.Decided, err error) (*decisionOutput, error) {
	out := &decisionOutput{Body: decided}
	if decided.Replayed {
		out.Replayed = strconv.FormatBool(true)
	}
	return out, err
}

// add registers an operation that needs scope. The scope is checked before
// anything of the request is read.
func add[In, Out any](api huma.API, scope operator.Scope, op huma.Operation, handle func(context.Context, *In) (*Out, error)) {
	document(&op, scope)
	op.Middlewares = huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		if err := identityOf(ctx.Context()).May(scope); err != nil {
			refuse(ctx, asProblem(err))
			return
		}
		next(ctx)
	}}
	huma.Register(api, op, func(ctx context.Context, in *In) (*Out, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, asProblem(err)
		}
		return out, nil
	})
}

func refuse(ctx huma.Context, a answered) {
	ctx.SetHeader("Content-Type", problemType)
	ctx.SetStatus(a.Status)
	_ = json.NewEncoder(ctx.BodyWriter()).Encode(a.Problem) // the client may be gone
}
