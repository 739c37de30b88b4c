package stepfunctions

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// StartExecution starts an execution of a machine. The same name and input
// while that execution runs answers as the first time; the name of a closed
// one, or another input, is refused with ExecutionAlreadyExists.
func (r *Runner) StartExecution(in StartExecutionInput) (StartExecutionOutput, error) {
	return r.startExecution(in, "")
}

// startExecution starts an execution for a client or, with by, for a task of
// another one, which is told of its own start whenever it asks again.
func (r *Runner) startExecution(in StartExecutionInput, by string) (StartExecutionOutput, error) {
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
	if _, err := jsonvalue.Decode([]byte(input)); err != nil {
		return StartExecutionOutput{}, apiError(codeInvalidExecutionInput, "Invalid State Machine Execution Input: '%v'", err)
	}
	return r.start(in.StateMachineARN, input, beginning{Name: name, Trace: in.TraceHeader, By: by})
}

func (r *Runner) start(machineARN, input string, b beginning) (StartExecutionOutput, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return StartExecutionOutput{}, errClosed()
	}
	m, err := r.find(machineARN)
	if err != nil {
		return StartExecutionOutput{}, err
	}
	b.ARN = r.executionARN(m.Name, b.Name)
	if earlier, taken := r.executions[b.ARN]; taken {
		return earlier.startedAgain(input, b.By)
	}
	if m.Deleting {
		return StartExecutionOutput{}, apiError(codeStateMachineDeleting, "State Machine is being deleted: '%s'", m.ARN)
	}
	if r.open >= r.maxOpen {
		return StartExecutionOutput{}, errLimit()
	}
	b.Serial, b.MachineID, b.MachineARN, b.Machine, b.Definition = r.serial+1, m.ID, m.ARN, m.Name, m.Definition
	x := &execution{runner: r, machine: m, arn: b.ARN, story: &story{}, stop: make(chan struct{})}
	first := event(0, 0, history.ExecutionStarted, history.Started{Input: input, InputDetails: history.Whole(), RoleARN: m.RoleARN})
	first.Start = &b
	// Stored now: the whole execution. If we stop before, it does not exist;
	// after, it runs, whoever heard of it.
	if err := x.store(first); err != nil {
		return StartExecutionOutput{}, err
	}
	r.keep(x)
	r.options.Logger.LogAttrs(context.Background(), slog.LevelInfo, "execution started", slog.String("execution", x.arn))
	if err := x.drive(); err != nil {
		return StartExecutionOutput{}, err
	}
	return StartExecutionOutput{ExecutionARN: x.arn, StartDate: seconds(x.story.started)}, nil
}

// startedAgain answers a start under a name that is taken.
func (x *execution) startedAgain(input, by string) (StartExecutionOutput, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	same := x.story.status == Running && x.story.input == input || by != "" && x.story.By == by
	if !same {
		return StartExecutionOutput{}, apiError(codeExecutionAlreadyExists, "Execution Already Exists: '%s'", x.arn)
	}
	return StartExecutionOutput{ExecutionARN: x.arn, StartDate: seconds(x.story.started)}, nil
}

// keep adds an execution to those that the Runner knows. The mutex must be held.
func (r *Runner) keep(x *execution) {
	r.executions[x.arn] = x
	r.order = append(r.order, x)
	r.serial = x.story.Serial
	if x.story.status == Running {
		r.opened(x.machine)
	}
}

// opened counts an execution that runs. The mutex must be held.
func (r *Runner) opened(m *machine) {
	m.unfinished++
	r.open++
}

// ended is told by an execution that it is over.
func (r *Runner) ended(x *execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.machine.unfinished--
	r.open--
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
	r.mu.Lock()
	deleting := x.machine.Deleting
	r.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	told := x.story
	if told.textless {
		if told, err = x.whole(); err != nil {
			return DescribeExecutionOutput{}, err
		}
	}
	out := x.describe(told, deleting)
	if in.IncludedData == "METADATA_ONLY" {
		out.Input, out.Output, out.InputDetails, out.OutputDetails = "", "", &Included{}, nil
	}
	return out, nil
}

// describe describes an execution; deleting tells of its machine.
func (x *execution) describe(s *story, deleting bool) DescribeExecutionOutput {
	included := &Included{Included: true}
	out := DescribeExecutionOutput{
		ExecutionARN: x.arn, StateMachineARN: s.MachineARN, Name: s.Name, Status: s.status, StartDate: seconds(s.started),
		StopDate: dated(s.stopped), Input: s.input, InputDetails: included, Error: s.failure.Error, Cause: s.failure.Cause, TraceHeader: s.Trace,
		RedriveCount: s.redrives, RedriveDate: dated(s.redriven),
		RedriveStatus: "REDRIVABLE", RedriveStatusReason: x.runner.whyNotRedrivable(s, deleting),
	}
	if s.status == Succeeded {
		out.Output, out.OutputDetails = s.output, included
	}
	if out.RedriveStatusReason != "" {
		out.RedriveStatus = "NOT_REDRIVABLE"
	}
	return out
}

// dated is nil for a time that has not come.
func dated(at time.Time) *float64 {
	if at.IsZero() {
		return nil
	}
	return new(seconds(at))
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
		if item := x.listItem(); in.wants(item) {
			all = append(all, item)
		}
	}
	items, next := slicePage(all, start, limit)
	return ListExecutionsOutput{Executions: items, NextToken: next}, nil
}

func (x *execution) listItem() ExecutionListItem {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.story
	return ExecutionListItem{
		ExecutionARN: x.arn, StateMachineARN: s.MachineARN, Name: s.Name, Status: s.status, StartDate: seconds(s.started),
		StopDate: dated(s.stopped), RedriveCount: s.redrives, RedriveDate: dated(s.redriven),
	}
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
	last := event(0, 0, history.ExecutionAborted, history.Ended{Type: history.ExecutionAborted, Error: in.Error, Cause: in.Cause})
	if err := x.end(Aborted, last); err != nil {
		return StopExecutionOutput{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return StopExecutionOutput{StopDate: seconds(x.story.stopped)}, nil
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
	x.mu.Lock()
	defer x.mu.Unlock()
	told, err := x.whole()
	if err != nil {
		return GetExecutionHistoryOutput{}, err
	}
	events, more := told.log.Page(int64(after), limit, in.ReverseOrder)
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
