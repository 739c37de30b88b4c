package stepfunctions

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// StartExecution starts an execution of a machine. The same name and input
// while that execution runs answers as the first time; the name of a closed
// one, or another input, is refused with ExecutionAlreadyExists.
func (r *Runner) StartExecution(in StartExecutionInput) (StartExecutionOutput, error) {
	if err := in.check(); err != nil {
		return StartExecutionOutput{}, err
	}
	input, name := "{}", uuid.NewString()
	if in.Input != nil {
		input = *in.Input
	}
	if in.Name != nil {
		name = *in.Name
	}
	if err := checkName(name); err != nil {
		return StartExecutionOutput{}, err
	}
	if len(input) > jsonvalue.MaxBytes {
		return StartExecutionOutput{}, apiError(codeInvalidExecutionInput, "Invalid State Machine Execution Input: 'The input exceeds the limit of %d bytes.'", jsonvalue.MaxBytes)
	}
	value, err := jsonvalue.Decode([]byte(input))
	if err != nil {
		return StartExecutionOutput{}, apiError(codeInvalidExecutionInput, "Invalid State Machine Execution Input: '%v'", err)
	}
	x := &execution{runner: r, name: name, input: input, value: value, trace: in.TraceHeader, status: Running}
	return r.start(in.StateMachineARN, x)
}

func (r *Runner) start(machineARN string, x *execution) (StartExecutionOutput, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return StartExecutionOutput{}, errClosed()
	}
	m, err := r.find(machineARN)
	if err != nil {
		return StartExecutionOutput{}, err
	}
	x.arn = r.executionARN(m.name, x.name)
	if earlier, taken := r.executions[x.arn]; taken {
		if earlier.input != x.input || !earlier.running() {
			return StartExecutionOutput{}, apiError(codeExecutionAlreadyExists, "Execution Already Exists: '%s'", x.arn)
		}
		return StartExecutionOutput{ExecutionARN: x.arn, StartDate: seconds(earlier.started)}, nil
	}
	if m.deleting {
		return StartExecutionOutput{}, apiError(codeStateMachineDeleting, "State Machine is being deleted: '%s'", m.arn)
	}
	x.machine, x.definition, x.roleARN = m, m.parsed, m.roleARN
	x.started, x.log, x.stop = r.options.Now(), history.NewLog(r.options.Now), make(chan struct{})
	x.log.Append(0, history.ExecutionStarted, history.Started{Input: x.input, InputDetails: history.Whole(), RoleARN: x.roleARN})
	m.unfinished++
	r.executions[x.arn] = x
	r.order = append(r.order, x)
	r.options.Logger.LogAttrs(context.Background(), slog.LevelInfo, "execution started", slog.String("execution", x.arn))
	r.spawn(x.run)
	return StartExecutionOutput{ExecutionARN: x.arn, StartDate: seconds(x.started)}, nil
}

// ended is told by an execution that it is over.
func (r *Runner) ended(x *execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.machine.unfinished--
	r.sweep(x.machine)
}

func (r *Runner) findExecution(arn string) (*execution, error) {
	if err := checkARN("executionArn", arn); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	x, ok := r.executions[arn]
	if !ok {
		return nil, apiError(codeExecutionDoesNotExist, "Execution Does Not Exist: '%s'", arn)
	}
	return x, nil
}

// DescribeExecution answers status, input and output of an execution.
func (r *Runner) DescribeExecution(in DescribeExecutionInput) (DescribeExecutionOutput, error) {
	x, err := r.findExecution(in.ExecutionARN)
	if err != nil {
		return DescribeExecutionOutput{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	included := &Included{Included: true}
	out := DescribeExecutionOutput{
		ExecutionARN: x.arn, StateMachineARN: x.machine.arn, Name: x.name, Status: x.status, StartDate: seconds(x.started),
		Input: x.input, InputDetails: included, Error: x.failure.Error, Cause: x.failure.Cause, TraceHeader: x.trace,
		RedriveStatus: "NOT_REDRIVABLE", RedriveStatusReason: redriveReason(x.status),
	}
	if x.status != Running {
		out.StopDate = new(seconds(x.stopped))
	}
	if x.status == Succeeded {
		out.Output, out.OutputDetails = x.output, included
	}
	if in.IncludedData == "METADATA_ONLY" {
		out.Input, out.Output, out.InputDetails, out.OutputDetails = "", "", &Included{}, nil
	}
	return out, nil
}

func redriveReason(status Status) string {
	if status == Running || status == Succeeded {
		return "Execution is " + string(status) + " and cannot be redriven"
	}
	return "Execution is " + string(status) + "; the local runner does not redrive"
}

// ListExecutions answers the executions of a machine, the newest first.
func (r *Runner) ListExecutions(in ListExecutionsInput) (ListExecutionsOutput, error) {
	if err := in.check(); err != nil {
		return ListExecutionsOutput{}, err
	}
	start, limit, err := in.page()
	if err != nil {
		return ListExecutionsOutput{}, err
	}
	r.mu.Lock()
	_, err = r.find(in.StateMachineARN)
	found := slices.Clone(r.order)
	r.mu.Unlock()
	if err != nil {
		return ListExecutionsOutput{}, err
	}
	slices.Reverse(found)
	all := []ExecutionListItem{}
	for _, x := range found {
		item := x.listItem()
		if x.machine.arn == in.StateMachineARN && (in.StatusFilter == "" || in.StatusFilter == string(item.Status)) {
			all = append(all, item)
		}
	}
	items, next := slicePage(all, start, limit)
	return ListExecutionsOutput{Executions: items, NextToken: next}, nil
}

func (x *execution) listItem() ExecutionListItem {
	x.mu.Lock()
	defer x.mu.Unlock()
	item := ExecutionListItem{ExecutionARN: x.arn, StateMachineARN: x.machine.arn, Name: x.name, Status: x.status, StartDate: seconds(x.started)}
	if x.status != Running {
		item.StopDate = new(seconds(x.stopped))
	}
	return item
}

// StopExecution ends a running execution as ABORTED; one that has ended keeps
// its end. Functions that it called run on.
func (r *Runner) StopExecution(in StopExecutionInput) (StopExecutionOutput, error) {
	if err := in.check(); err != nil {
		return StopExecutionOutput{}, err
	}
	x, err := r.findExecution(in.ExecutionARN)
	if err != nil {
		return StopExecutionOutput{}, err
	}
	x.end(Aborted, 0, history.Ended{Type: history.ExecutionAborted, Error: in.Error, Cause: in.Cause}, "")
	x.mu.Lock()
	defer x.mu.Unlock()
	return StopExecutionOutput{StopDate: seconds(x.stopped)}, nil
}

// GetExecutionHistory answers the events of an execution, page by page.
func (r *Runner) GetExecutionHistory(in GetExecutionHistoryInput) (GetExecutionHistoryOutput, error) {
	x, err := r.findExecution(in.ExecutionARN)
	if err != nil {
		return GetExecutionHistoryOutput{}, err
	}
	after, limit, err := in.page()
	if err != nil {
		return GetExecutionHistoryOutput{}, err
	}
	events, more := x.log.Page(int64(after), limit, in.ReverseOrder)
	out := GetExecutionHistoryOutput{Events: make([]map[string]any, len(events))}
	withData := in.IncludeExecutionData == nil || *in.IncludeExecutionData
	for i, event := range events {
		out.Events[i] = event.Wire(withData)
	}
	if more {
		out.NextToken = pageToken(int(events[len(events)-1].ID))
	}
	return out, nil
}

// statuses are the ones that a filter may name.
var statuses = []string{"SUCCEEDED", "TIMED_OUT", "PENDING_REDRIVE", "ABORTED", "FAILED", "RUNNING"}

func checkStatusFilter(filter string) error {
	if filter == "" || slices.Contains(statuses, filter) {
		return nil
	}
	return invalid("statusFilter", filter, "Member must satisfy enum value set: ["+strings.Join(statuses, ", ")+"]")
}
