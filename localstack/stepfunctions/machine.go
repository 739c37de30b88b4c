package stepfunctions

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
)

// machine is a state machine. The Runner's mutex guards it.
type machine struct {
	arn, name  string
	definition string
	parsed     *asl.Machine
	roleARN    string
	created    time.Time
	revision   string // empty until the first update
	deleting   bool
	unfinished int // running executions
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
		case m.deleting:
			return CreateStateMachineOutput{}, apiError(codeStateMachineDeleting, "State Machine is being deleted: '%s'", arn)
		case m.definition != in.Definition:
			return CreateStateMachineOutput{}, apiError(codeStateMachineAlreadyExists, "State Machine Already Exists: '%s'", arn)
		}
		return CreateStateMachineOutput{StateMachineARN: arn, CreationDate: seconds(m.created)}, nil
	}
	m := &machine{arn: arn, name: in.Name, definition: in.Definition, parsed: parsed, roleARN: in.RoleARN, created: r.options.Now()}
	r.machines[arn] = m
	return CreateStateMachineOutput{StateMachineARN: arn, CreationDate: seconds(m.created)}, nil
}

// UpdateStateMachine replaces definition or role; running executions keep theirs.
func (r *Runner) UpdateStateMachine(in UpdateStateMachineInput) (UpdateStateMachineOutput, error) {
	if err := in.check(); err != nil {
		return UpdateStateMachineOutput{}, err
	}
	var parsed *asl.Machine
	if in.Definition != nil {
		var err error
		if parsed, err = parseDefinition(*in.Definition); err != nil {
			return UpdateStateMachineOutput{}, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(in.StateMachineARN)
	if err != nil {
		return UpdateStateMachineOutput{}, err
	}
	if m.deleting {
		return UpdateStateMachineOutput{}, apiError(codeStateMachineDeleting, "State Machine is being deleted: '%s'", m.arn)
	}
	changed := in.Definition != nil && *in.Definition != m.definition || in.RoleARN != nil && *in.RoleARN != m.roleARN
	if in.Definition != nil {
		m.definition, m.parsed = *in.Definition, parsed
	}
	if in.RoleARN != nil {
		m.roleARN = *in.RoleARN
	}
	if changed || m.revision == "" {
		m.revision = uuid.NewString()
	}
	return UpdateStateMachineOutput{UpdateDate: seconds(r.options.Now()), RevisionID: m.revision}, nil
}

// DeleteStateMachine removes a machine with its executions; one with running
// executions is removed when the last of them ends and starts no others.
func (r *Runner) DeleteStateMachine(in StateMachineARNInput) (Empty, error) {
	if err := checkARN("stateMachineArn", in.StateMachineARN); err != nil {
		return Empty{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.machines[in.StateMachineARN]; ok {
		m.deleting = true
		r.sweep(m)
	}
	return Empty{}, nil
}

// sweep removes a machine that is to be deleted once nothing runs. The mutex
// must be held.
func (r *Runner) sweep(m *machine) {
	if !m.deleting || m.unfinished > 0 {
		return
	}
	delete(r.machines, m.arn)
	r.order = slices.DeleteFunc(r.order, func(x *execution) bool {
		if x.machine != m {
			return false
		}
		delete(r.executions, x.arn)
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
		StateMachineARN: m.arn, Name: m.name, Status: "ACTIVE", Definition: m.definition, RoleARN: m.roleARN, Type: standard,
		CreationDate: seconds(m.created), LoggingConfiguration: LoggingConfiguration{Level: "OFF"}, RevisionID: m.revision,
	}
	if m.deleting {
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
		all = append(all, StateMachineListItem{StateMachineARN: m.arn, Name: m.name, Type: standard, CreationDate: seconds(m.created)})
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
