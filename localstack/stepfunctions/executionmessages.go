package stepfunctions

import (
	"slices"
	"strings"
)

// StartExecutionInput asks for an execution. Name defaults to a UUID, Input to {}.
type StartExecutionInput struct {
	StateMachineARN string  `json:"stateMachineArn"`
	Name            *string `json:"name,omitempty"`
	Input           *string `json:"input,omitempty"`
	TraceHeader     string  `json:"traceHeader,omitempty"`
}

func (in StartExecutionInput) check() error {
	return checkARN("stateMachineArn", in.StateMachineARN)
}

// StartExecutionOutput names the execution.
type StartExecutionOutput struct {
	ExecutionARN string  `json:"executionArn"`
	StartDate    float64 `json:"startDate"`
}

// DescribeExecutionInput names an execution.
type DescribeExecutionInput struct {
	ExecutionARN string `json:"executionArn"`
	IncludedData string `json:"includedData,omitempty"`
}

// Included tells whether data is part of an answer.
type Included struct {
	Included bool `json:"included"`
}

// DescribeExecutionOutput describes an execution.
type DescribeExecutionOutput struct {
	ExecutionARN        string    `json:"executionArn"`
	StateMachineARN     string    `json:"stateMachineArn"`
	Name                string    `json:"name"`
	Status              Status    `json:"status"`
	StartDate           float64   `json:"startDate"`
	StopDate            *float64  `json:"stopDate,omitempty"`
	Input               string    `json:"input,omitempty"`
	InputDetails        *Included `json:"inputDetails,omitempty"`
	Output              string    `json:"output,omitempty"`
	OutputDetails       *Included `json:"outputDetails,omitempty"`
	Error               string    `json:"error,omitempty"`
	Cause               string    `json:"cause,omitempty"`
	TraceHeader         string    `json:"traceHeader,omitempty"`
	RedriveCount        int       `json:"redriveCount"`
	RedriveDate         *float64  `json:"redriveDate,omitempty"`
	RedriveStatus       string    `json:"redriveStatus"`
	RedriveStatusReason string    `json:"redriveStatusReason,omitempty"`
}

// ListExecutionsInput asks for a page of a machine's executions.
type ListExecutionsInput struct {
	StateMachineARN string `json:"stateMachineArn"`
	StatusFilter    string `json:"statusFilter,omitempty"`
	MapRunARN       string `json:"mapRunArn,omitempty"`
	RedriveFilter   string `json:"redriveFilter,omitempty"`
	paging
}

func (in ListExecutionsInput) check() error {
	if in.MapRunARN != "" {
		return unsupported("mapRunArn", in.MapRunARN)
	}
	if err := checkARN("stateMachineArn", in.StateMachineARN); err != nil {
		return err
	}
	if in.StatusFilter == pendingRedrive {
		return apiError(codeValidation, "The status filter %s is for child executions of a Map Run.", pendingRedrive)
	}
	if err := checkFilter("statusFilter", in.StatusFilter, statuses); err != nil {
		return err
	}
	return checkFilter("redriveFilter", in.RedriveFilter, redriveFilters)
}

// wants tells whether an execution is one that the filters let through.
func (in ListExecutionsInput) wants(item ExecutionListItem) bool {
	redriven := notRedriven
	if item.RedriveCount > 0 {
		redriven = onlyRedriven
	}
	return item.StateMachineARN == in.StateMachineARN && (in.StatusFilter == "" || in.StatusFilter == string(item.Status)) &&
		(in.RedriveFilter == "" || in.RedriveFilter == redriven)
}

const (
	pendingRedrive = "PENDING_REDRIVE"
	onlyRedriven   = "REDRIVEN"
	notRedriven    = "NOT_REDRIVEN"
)

// What the filters of lists may name.
var (
	statuses       = []string{"SUCCEEDED", "TIMED_OUT", pendingRedrive, "ABORTED", "FAILED", "RUNNING"}
	redriveFilters = []string{onlyRedriven, notRedriven}
)

func checkFilter(field, filter string, values []string) error {
	if filter == "" || slices.Contains(values, filter) {
		return nil
	}
	return invalid(field, filter, "Member must satisfy enum value set: ["+strings.Join(values, ", ")+"]")
}

// ListExecutionsOutput is a page of executions.
type ListExecutionsOutput struct {
	Executions []ExecutionListItem `json:"executions"`
	NextToken  string              `json:"nextToken,omitempty"`
}

// ExecutionListItem is one execution of a list.
type ExecutionListItem struct {
	ExecutionARN    string   `json:"executionArn"`
	StateMachineARN string   `json:"stateMachineArn"`
	Name            string   `json:"name"`
	Status          Status   `json:"status"`
	StartDate       float64  `json:"startDate"`
	StopDate        *float64 `json:"stopDate,omitempty"`
	RedriveCount    int      `json:"redriveCount"`
	RedriveDate     *float64 `json:"redriveDate,omitempty"`
}

// StopExecutionInput names an execution and says why it stops.
type StopExecutionInput struct {
	ExecutionARN string `json:"executionArn"`
	Error        string `json:"error,omitempty"`
	Cause        string `json:"cause,omitempty"`
}

func (in StopExecutionInput) check() error { return checkProblem(in.Error, in.Cause) }

// checkProblem bounds what a caller says of an error.
func checkProblem(name, cause string) error {
	const maxError, maxCause = 256, 32_768
	if err := checkLength("error", name, 0, maxError); err != nil {
		return err
	}
	return checkLength("cause", cause, 0, maxCause)
}

// StopExecutionOutput tells when the execution ended.
type StopExecutionOutput struct {
	StopDate float64 `json:"stopDate"`
}

// GetExecutionHistoryInput asks for a page of events, by default the oldest
// first and with their data.
type GetExecutionHistoryInput struct {
	ExecutionARN         string `json:"executionArn"`
	ReverseOrder         bool   `json:"reverseOrder,omitempty"`
	IncludeExecutionData *bool  `json:"includeExecutionData,omitempty"`
	paging
}

// GetExecutionHistoryOutput is a page of events.
type GetExecutionHistoryOutput struct {
	Events    []map[string]any `json:"events"`
	NextToken string           `json:"nextToken,omitempty"`
}

// RedriveExecutionInput names an execution. The same ClientToken within 15
// minutes is the same request.
type RedriveExecutionInput struct {
	ExecutionARN string  `json:"executionArn"`
	ClientToken  *string `json:"clientToken,omitempty"`
}

func (in RedriveExecutionInput) check() error {
	const maxToken = 64
	if in.ClientToken == nil {
		return nil
	}
	return checkLength("clientToken", *in.ClientToken, 1, maxToken)
}

// RedriveExecutionOutput tells when the execution was redriven.
type RedriveExecutionOutput struct {
	RedriveDate float64 `json:"redriveDate"`
}
