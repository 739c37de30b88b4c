package stepfunctions

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"
)

// StatusChange is EventBridge's "Step Functions Execution Status Change" event
// of one execution; its JSON has the members that AWS documents.
type StatusChange struct {
	Version    string             `json:"version"`
	ID         string             `json:"id"`
	DetailType string             `json:"detail-type"`
	Source     string             `json:"source"`
	Account    string             `json:"account"`
	Time       time.Time          `json:"time"`
	Region     string             `json:"region"`
	Resources  []string           `json:"resources"` // the execution's ARN
	Detail     StatusChangeDetail `json:"detail"`
}

// StatusChangeDetail describes the execution; dates are milliseconds of the epoch.
type StatusChangeDetail struct {
	ExecutionARN           string    `json:"executionArn"`
	StateMachineARN        string    `json:"stateMachineArn"`
	StateMachineVersionARN *string   `json:"stateMachineVersionArn"` // always null here
	StateMachineAliasARN   *string   `json:"stateMachineAliasArn"`   // always null here
	Name                   string    `json:"name"`
	Status                 Status    `json:"status"`
	StartDate              int64     `json:"startDate"`
	StopDate               *int64    `json:"stopDate"`
	Input                  *string   `json:"input"`
	InputDetails           *Included `json:"inputDetails"`
	Output                 *string   `json:"output"`
	OutputDetails          *Included `json:"outputDetails"`
	Error                  *string   `json:"error"`
	Cause                  *string   `json:"cause"`
	RedriveCount           int       `json:"redriveCount"`
	RedriveDate            *int64    `json:"redriveDate"`
	RedriveStatus          string    `json:"redriveStatus"`
	RedriveStatusReason    *string   `json:"redriveStatusReason"`
}

// announce tells whoever wants to know that an execution has ended badly.
func (r *Runner) announce(d DescribeExecutionOutput) {
	if r.options.Ended == nil || d.Status == Succeeded {
		return
	}
	change := r.statusChange(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.spawn(func(context.Context) { r.options.Ended(change) })
	}
}

// statusChange makes the event of an execution that has just ended from its description.
func (r *Runner) statusChange(d DescribeExecutionOutput) StatusChange {
	change := StatusChange{
		Version: "0", ID: uuid.NewString(), DetailType: "Step Functions Execution Status Change", Source: "aws.states",
		Account: r.options.Account, Region: r.options.Region, Time: r.options.Now().UTC().Truncate(time.Second), Resources: []string{d.ExecutionARN},
		Detail: StatusChangeDetail{
			ExecutionARN: d.ExecutionARN, StateMachineARN: d.StateMachineARN, Name: d.Name, Status: d.Status,
			StartDate: milliseconds(d.StartDate), Input: &d.Input, InputDetails: d.InputDetails,
			Error: given(d.Error), Cause: given(d.Cause), RedriveCount: d.RedriveCount,
			RedriveStatus: d.RedriveStatus, RedriveStatusReason: given(d.RedriveStatusReason),
		},
	}
	if d.StopDate != nil {
		change.Detail.StopDate = new(milliseconds(*d.StopDate))
	}
	if d.RedriveDate != nil {
		change.Detail.RedriveDate = new(milliseconds(*d.RedriveDate))
	}
	return change
}

func milliseconds(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }

// given is nil for a text that nobody gave, which EventBridge shows as null.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
