package stack

import (
	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/lambda"
	"github.com/onceward/onceward/localstack/plain/machine"
)

// About is what GET /_local/about says of a running stack.
type About struct {
	URL          string            `json:"url"`         // of DynamoDB, Step Functions, Lambda and the operator's API
	BillingURL   string            `json:"billing_url"` // of the billing service, with its own database
	Region       string            `json:"region"`
	Stage        string            `json:"stage"`
	Table        string            `json:"table"`
	StateMachine string            `json:"state_machine"` // the name of the one that drives runs
	Machines     map[string]string `json:"machines"`      // name to ARN
	Functions    map[string]string `json:"functions"`     // folder to deployed name
	Data         string            `json:"data"`          // the directory that data is kept in, empty for none
}

// About describes the stack.
func (s *Stack) About() About {
	a := About{
		URL: s.URL, BillingURL: s.BillingURL, Region: lambda.Region, Stage: Stage, Table: s.Names.Table, StateMachine: s.Names.Machine,
		Machines:  map[string]string{s.Names.Machine: MachineARN(s.Names.Machine), machine.Name: MachineARN(machine.Name)},
		Functions: map[string]string{plain: machine.Function},
	}
	for _, name := range names.Functions() {
		a.Functions[name] = s.Names.Function(name)
	}
	if s.data.kept {
		a.Data = s.data.dir
	}
	return a
}
