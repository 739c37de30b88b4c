package stepfunctions

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

const standard = "STANDARD"

// seconds is a time as the JSON protocol sends it.
func seconds(at time.Time) float64 { return history.Seconds(at) }

// Empty is the answer of operations that answer nothing.
type Empty struct{}

// LoggingConfiguration is always off here.
type LoggingConfiguration struct {
	Level                string `json:"level,omitempty"`
	IncludeExecutionData bool   `json:"includeExecutionData"`
	Destinations         []any  `json:"destinations,omitempty"`
}

// TracingConfiguration is always off here.
type TracingConfiguration struct {
	Enabled bool `json:"enabled"`
}

// observability are the settings that only AWS itself can serve.
type observability struct {
	LoggingConfiguration    *LoggingConfiguration `json:"loggingConfiguration,omitempty"`
	TracingConfiguration    *TracingConfiguration `json:"tracingConfiguration,omitempty"`
	EncryptionConfiguration *struct {
		Type                         string `json:"type"`
		KMSKeyID                     string `json:"kmsKeyId,omitempty"`
		KMSDataKeyReusePeriodSeconds int    `json:"kmsDataKeyReusePeriodSeconds,omitempty"`
	} `json:"encryptionConfiguration,omitempty"`
	Publish            bool   `json:"publish,omitempty"`
	VersionDescription string `json:"versionDescription,omitempty"`
}

func (o observability) check() error {
	switch {
	case o.LoggingConfiguration != nil && o.LoggingConfiguration.Level != "" && o.LoggingConfiguration.Level != "OFF":
		return unsupported("loggingConfiguration.level", o.LoggingConfiguration.Level)
	case o.TracingConfiguration != nil && o.TracingConfiguration.Enabled:
		return unsupported("tracingConfiguration.enabled", "true")
	case o.EncryptionConfiguration != nil && o.EncryptionConfiguration.Type != "AWS_OWNED_KEY":
		return unsupported("encryptionConfiguration.type", o.EncryptionConfiguration.Type)
	case o.Publish:
		return unsupported("publish", "true")
	case o.VersionDescription != "":
		return unsupported("versionDescription", o.VersionDescription)
	}
	return nil
}

// Tag is a label of a machine; the Runner accepts and forgets it.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// CreateStateMachineInput asks for a machine.
type CreateStateMachineInput struct {
	Name       string `json:"name"`
	Definition string `json:"definition"`
	RoleARN    string `json:"roleArn"`
	Type       string `json:"type,omitempty"` // default STANDARD
	Tags       []Tag  `json:"tags,omitempty"`
	observability
}

func (in CreateStateMachineInput) check() error {
	if err := checkName(in.Name); err != nil {
		return err
	}
	if in.Type != "" && in.Type != standard {
		return apiError(codeTypeNotSupported, "State Machine type is not supported by the local runner: '%s'", in.Type)
	}
	if err := checkLength("definition", in.Definition, 1, maxDefinition); err != nil {
		return err
	}
	if err := checkARN("roleArn", in.RoleARN); err != nil {
		return err
	}
	return in.observability.check()
}

const maxDefinition = 1_048_576

// CreateStateMachineOutput names the machine.
type CreateStateMachineOutput struct {
	StateMachineARN string  `json:"stateMachineArn"`
	CreationDate    float64 `json:"creationDate"`
}

// UpdateStateMachineInput replaces a definition or a role.
type UpdateStateMachineInput struct {
	StateMachineARN string  `json:"stateMachineArn"`
	Definition      *string `json:"definition,omitempty"`
	RoleARN         *string `json:"roleArn,omitempty"`
	observability
}

func (in UpdateStateMachineInput) check() error {
	if err := checkARN("stateMachineArn", in.StateMachineARN); err != nil {
		return err
	}
	if in.Definition == nil && in.RoleARN == nil {
		return apiError(codeMissingRequiredParameter, "Either the definition, the role ARN, the LoggingConfiguration, the TracingConfiguration or the EncryptionConfiguration must be specified")
	}
	return in.observability.check()
}

// UpdateStateMachineOutput names the new revision.
type UpdateStateMachineOutput struct {
	UpdateDate float64 `json:"updateDate"`
	RevisionID string  `json:"revisionId"`
}

// StateMachineARNInput names a machine.
type StateMachineARNInput struct {
	StateMachineARN string `json:"stateMachineArn"`
}

// DescribeStateMachineInput names a machine.
type DescribeStateMachineInput struct {
	StateMachineARN string `json:"stateMachineArn"`
	IncludedData    string `json:"includedData,omitempty"`
}

// DescribeStateMachineOutput describes a machine.
type DescribeStateMachineOutput struct {
	StateMachineARN      string               `json:"stateMachineArn"`
	Name                 string               `json:"name"`
	Status               string               `json:"status"`
	Definition           string               `json:"definition,omitempty"`
	RoleARN              string               `json:"roleArn"`
	Type                 string               `json:"type"`
	CreationDate         float64              `json:"creationDate"`
	LoggingConfiguration LoggingConfiguration `json:"loggingConfiguration"`
	TracingConfiguration TracingConfiguration `json:"tracingConfiguration"`
	RevisionID           string               `json:"revisionId,omitempty"`
}

// StateMachineListItem is one machine of a list.
type StateMachineListItem struct {
	StateMachineARN string  `json:"stateMachineArn"`
	Name            string  `json:"name"`
	Type            string  `json:"type"`
	CreationDate    float64 `json:"creationDate"`
}

// ListStateMachinesInput asks for a page of machines.
type ListStateMachinesInput struct{ paging }

// ListStateMachinesOutput is a page of machines.
type ListStateMachinesOutput struct {
	StateMachines []StateMachineListItem `json:"stateMachines"`
	NextToken     string                 `json:"nextToken,omitempty"`
}

// ValidateInput is a definition to check.
type ValidateInput struct {
	Definition string `json:"definition"`
	Type       string `json:"type,omitempty"`
	Severity   string `json:"severity,omitempty"`
	MaxResults int    `json:"maxResults,omitempty"`
}

func (in ValidateInput) check() error {
	if in.Type != "" && in.Type != standard {
		return unsupported("type", in.Type)
	}
	if in.MaxResults < 0 || in.MaxResults > 100 {
		return invalid("maxResults", strconv.Itoa(in.MaxResults), "Member must have value between 0 and 100")
	}
	return checkLength("definition", in.Definition, 1, maxDefinition)
}

// ValidateOutput is what is wrong with a definition.
type ValidateOutput struct {
	Result      string       `json:"result"`
	Diagnostics []Diagnostic `json:"diagnostics"`
	Truncated   bool         `json:"truncated"`
}

// Diagnostic is one thing that is wrong.
type Diagnostic struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Message  string `json:"message"`
	Location string `json:"location,omitempty"`
}

// paging is the part of a request that asks for a page.
type paging struct {
	MaxResults int    `json:"maxResults,omitempty"`
	NextToken  string `json:"nextToken,omitempty"`
}

const (
	defaultPage = 100
	maxPage     = 1000
)

func (p paging) page() (start, limit int, err error) {
	switch {
	case p.MaxResults < 0:
		return 0, 0, invalid("maxResults", strconv.Itoa(p.MaxResults), "Member must have value greater than or equal to 0")
	case p.MaxResults > maxPage:
		return 0, 0, invalid("maxResults", strconv.Itoa(p.MaxResults), "Member must have value less than or equal to 1000")
	case p.MaxResults == 0:
		limit = defaultPage
	default:
		limit = p.MaxResults
	}
	if p.NextToken == "" {
		return 0, limit, nil
	}
	raw, err := base64.StdEncoding.DecodeString(p.NextToken)
	if err == nil {
		start, err = strconv.Atoi(strings.TrimPrefix(string(raw), pagePrefix))
	}
	if err != nil || start < 0 {
		return 0, 0, apiError(codeInvalidToken, "Invalid Token: 'Invalid token'")
	}
	return start, limit, nil
}

const pagePrefix = "page:"

func pageToken(start int) string {
	return base64.StdEncoding.EncodeToString([]byte(pagePrefix + strconv.Itoa(start)))
}

// slicePage cuts a page out of a list and names the next one.
func slicePage[T any](all []T, start, limit int) (page []T, next string) {
	start = min(start, len(all))
	end := min(start+limit, len(all))
	if end < len(all) {
		next = pageToken(end)
	}
	return all[start:end], next
}

// checkTaskOutput reads the output of a task; it must be JSON within the limit.
func checkTaskOutput(output string) error {
	if len(output) > jsonvalue.MaxBytes {
		return apiError(codeInvalidOutput, "Invalid Output: 'The output exceeds the limit of %d bytes.'", jsonvalue.MaxBytes)
	}
	if _, err := jsonvalue.Decode([]byte(output)); err != nil {
		return apiError(codeInvalidOutput, "Invalid Output: '%v'", err)
	}
	return nil
}
