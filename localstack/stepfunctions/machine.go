package stepfunctions

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
)

// machine is a state machine. The Runner's mutex guards it.
type machine struct {
	machineRecord
	unfinished int // running executions

	// parsed is what parsedFrom says: executions seldom differ in it.
	parsed     *asl.Machine
	parsedFrom string
}

// parse reads the definition that an execution has. The Runner's mutex must be
// held.
func (m *machine) parse(definition string) (*asl.Machine, error) {
	if m.parsed == nil || m.parsedFrom != definition {
		parsed, err := parseDefinition(definition)
		if err != nil {
			return nil, err
		}
		m.parsed, m.parsedFrom = parsed, definition
	}
	return m.parsed, nil
}

// machineRecord is a machine as it is stored.
type machineRecord struct {
	ID         string    `json:"id"` // tells machines apart that had the same name one after the other
	ARN        string    `json:"arn"`
	Name       string    `json:"name"`
	Definition string    `json:"definition"`
	RoleARN    string    `json:"role_arn"`
	Created    time.Time `json:"created"`
	Revision   string    `json:"revision,omitempty"` // empty until the first update
	Deleting   bool      `json:"deleting,omitempty"`
	Deleted    bool      `json:"deleted,omitempty"`
}

func parseDefinition(definition string) (*asl.Machine, error) {
	parsed, err := asl.Parse([]byte(definition))
	if err == nil {
		return parsed, nil
	}
	wrong, ok := errors.AsType[*asl.DefinitionError](err)
	if !ok {
		return nil, apiError(codeInvalidDefinition, "Invalid State Machine Definition: '%v'", err)
	}
	texts := make([]string, len(wrong.Diagnostics))
	for i, d := range wrong.Diagnostics {
		texts[i] = d.String()
	}
	return nil, apiError(codeInvalidDefinition, "Invalid State Machine Definition: '%s'", strings.Join(texts, ", "))
}

// find returns a machine by its ARN. The mutex must be held.
func (r *Runner) find(arn string) (*machine, error) {
	m, ok := r.machines[arn]
	if !ok {
		return nil, apiError(codeStateMachineDoesNotExist, "State Machine Does Not Exist: '%s'", arn)
	}
	return m, nil
}

// CreateStateMachine checks a definition and keeps it under its name. The same
// request again answers as the first; another definition under a name that is
// taken is refused with StateMachineAlreadyExists.
func (r *Runner) CreateStateMachine(in CreateStateMachineInput) (CreateStateMachineOutput, error) {
	if err := in.check(); err != nil {
		return CreateStateMachineOutput{}, err
	}
	parsed, err := parseDefinition(in.Definition)
	if err != nil {
		return CreateStateMachineOutput{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return CreateStateMachineOutput{}, errClosed()
	}
	arn := r.machineARN(in.Name)
	if m, ok := r.machines[arn]; ok {
		switch {
		case m.Deleting:
			return CreateStateMachineOutput{}, apiError(codeStateMachineDeleting, "State Machine is being deleted: '%s'", arn)
		case m.Definition != in.Definition:
			return CreateStateMachineOutput{}, apiError(codeStateMachineAlreadyExists, "State Machine Already Exists: '%s'", arn)
		}
		return CreateStateMachineOutput{StateMachineARN: arn, CreationDate: seconds(m.Created)}, nil
	}
	m := &machine{parsed: parsed, parsedFrom: in.Definition, machineRecord: machineRecord{
		ID: uuid.NewString(), ARN: arn, Name: in.Name, Definition: in.Definition, RoleARN: in.RoleARN, Created: r.options.Now(),
	}}
	// Stored now: the machine. If we stop before, there is none, and the same
	// request makes it.
	if err := r.writeOwn(m.machineRecord); err != nil {
		return CreateStateMachineOutput{}, err
	}
	r.machines[arn] = m
	return CreateStateMachineOutput{StateMachineARN: arn, CreationDate: seconds(m.Created)}, nil
}

// UpdateStateMachine replaces definition or role; running executions keep theirs.
func (r *Runner) UpdateStateMachine(in UpdateStateMachineInput) (UpdateStateMachineOutput, error) {
	if err := in.check(); err != nil {
		return UpdateStateMachineOutput{}, err
	}
	if in.Definition != nil {
		if _, err := parseDefinition(*in.Definition); err != nil {
			return UpdateStateMachineOutput{}, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(in.StateMachineARN)
	if err != nil {
		return UpdateStateMachineOutput{}, err
	}
	if m.Deleting {
		return UpdateStateMachineOutput{}, apiError(codeStateMachineDeleting, "State Machine is being deleted: '%s'", m.ARN)
	}
	updated := m.machineRecord
	if in.Definition != nil {
		updated.Definition = *in.Definition
	}
	if in.RoleARN != nil {
		updated.RoleARN = *in.RoleARN
	}
	if updated != m.machineRecord || m.Revision == "" {
		updated.Revision = uuid.NewString()
		// Stored now: what executions get that start from here on. If we stop
		// before, the same request updates it.
		if err := r.writeOwn(updated); err != nil {
			return UpdateStateMachineOutput{}, err
		}
		m.machineRecord = updated
	}
	return UpdateStateMachineOutput{UpdateDate: seconds(r.options.Now()), RevisionID: m.Revision}, nil
}

// DeleteStateMachine removes a machine with its executions; one with running
// executions is removed when the last of them ends and starts no others.
func (r *Runner) DeleteStateMachine(in StateMachineARNInput) (Empty, error) {
	if err := checkARN("stateMachineArn", in.StateMachineARN); err != nil {
		return Empty{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.machines[in.StateMachineARN]
	if !ok || m.Deleting {
		return Empty{}, nil
	}
	deleting := m.machineRecord
	deleting.Deleting = true
	// Stored now: that it starts no others. Whoever reads it removes it when nothing runs.
	if err := r.writeOwn(deleting); err != nil {
		return Empty{}, err
	}
	m.machineRecord = deleting
	r.sweep(m)
	return Empty{}, nil
}

// sweep removes a machine that is to be deleted once nothing runs. The mutex
// must be held.
func (r *Runner) sweep(m *machine) {
	if !m.Deleting || m.unfinished > 0 {
		return
	}
	m.Deleted = true
	// Stored now: that it is gone. Journals that are still there then are removed
	// by whoever reads this.
	if err := r.writeOwn(m.machineRecord); err != nil {
		r.options.Logger.LogAttrs(context.Background(), slog.LevelError, "a machine's end was not stored",
			slog.String("machine", m.ARN), slog.String("error", err.Error()))
	}
	delete(r.machines, m.ARN)
	r.order = slices.DeleteFunc(r.order, func(x *execution) bool {
		if x.machine != m {
			return false
		}
		delete(r.executions, x.arn)
		if err := r.store.removeExecution(x.arn); err != nil {
			r.options.Logger.LogAttrs(context.Background(), slog.LevelWarn, "a journal was not removed",
				slog.String("execution", x.arn), slog.String("error", err.Error()))
		}
		return true
	})
}

// DescribeStateMachine answers a machine's definition and settings.
func (r *Runner) DescribeStateMachine(in DescribeStateMachineInput) (DescribeStateMachineOutput, error) {
	if err := checkARN("stateMachineArn", in.StateMachineARN); err != nil {
		return DescribeStateMachineOutput{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(in.StateMachineARN)
	if err != nil {
		return DescribeStateMachineOutput{}, err
	}
	out := DescribeStateMachineOutput{
		StateMachineARN: m.ARN, Name: m.Name, Status: "ACTIVE", Definition: m.Definition, RoleARN: m.RoleARN, Type: standard,
		CreationDate: seconds(m.Created), LoggingConfiguration: LoggingConfiguration{Level: "OFF"}, RevisionID: m.Revision,
	}
	if m.Deleting {
		out.Status = "DELETING"
	}
	if in.IncludedData == "METADATA_ONLY" {
		out.Definition = ""
	}
	return out, nil
}

// ListStateMachines answers the machines in the order of their names.
func (r *Runner) ListStateMachines(in ListStateMachinesInput) (ListStateMachinesOutput, error) {
	r.mu.Lock()
	all := make([]StateMachineListItem, 0, len(r.machines))
	for _, m := range r.machines {
		all = append(all, StateMachineListItem{StateMachineARN: m.ARN, Name: m.Name, Type: standard, CreationDate: seconds(m.Created)})
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b StateMachineListItem) int { return cmp.Compare(a.Name, b.Name) })
	start, limit, err := in.page()
	if err != nil {
		return ListStateMachinesOutput{}, err
	}
	items, next := slicePage(all, start, limit)
	return ListStateMachinesOutput{StateMachines: items, NextToken: next}, nil
}

// ValidateStateMachineDefinition checks a definition without keeping it.
func (r *Runner) ValidateStateMachineDefinition(in ValidateInput) (ValidateOutput, error) {
	if err := in.check(); err != nil {
		return ValidateOutput{}, err
	}
	out := ValidateOutput{Result: "OK", Diagnostics: []Diagnostic{}}
	_, err := asl.Parse([]byte(in.Definition))
	wrong, ok := errors.AsType[*asl.DefinitionError](err)
	if !ok {
		return out, nil
	}
	out.Result = "FAIL"
	for _, d := range wrong.Diagnostics {
		if in.MaxResults > 0 && len(out.Diagnostics) == in.MaxResults {
			out.Truncated = true
			break
		}
		out.Diagnostics = append(out.Diagnostics, Diagnostic{Severity: "ERROR", Code: d.Code, Message: d.Message, Location: d.Location})
	}
	return out, nil
}
