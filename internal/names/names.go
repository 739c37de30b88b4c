// Package names holds every name that code, infrastructure, state machines and
// tests must agree on. It imports nothing of this module; whoever needs a table,
// a function or an environment variable by name asks here. Start with [ForStage].
package names

// The functions of a deployment; each is a folder below functions/.
const (
	Planner      = "planner"
	BillingTools = "billing-tools"
	CallDesk     = "call-desk"
	Operator     = "operator"
	Sweeper      = "sweeper"
)

// Functions returns the folders below functions/, in a fixed order.
func Functions() []string { return []string{BillingTools, CallDesk, Operator, Planner, Sweeper} }

// Placeholders of the state machine definitions, written as ${Name} there.
const (
	PlannerFunction  = "PlannerFunction"
	CallDeskFunction = "CallDeskFunction"
)

// The names that the planner ends a run with.
const (
	FailBadInput       = "Onceward.BadInput"
	FailCallUnresolved = "Onceward.CallUnresolved"
	FailDeadline       = "Onceward.DeadlineExceeded"
	FailTurnRefused    = "Onceward.TurnRefused"
)

// Environment variables that the functions read.
const (
	EnvStage   = "ONCEWARD_STAGE"   // names logs and metrics; no default
	EnvTable   = "ONCEWARD_TABLE"   // the DynamoDB table; no default
	EnvTools   = "ONCEWARD_TOOLS"   // JSON object: tool name to {"function": name or ARN, "class": class}
	EnvBilling = "BILLING_URL"      // where the example's billing service listens
	EnvClient  = "BILLING_CLIENT"   // the client id that billing-tools signs in with
	EnvMachine = "ONCEWARD_MACHINE" // ARN of the agent-run state machine
)

// Attributes of the table's items that more than one room must know. The
// partition and sort keys, the index keys, and the broom's time to live.
const (
	AttrPartition      = "pk"
	AttrSort           = "sk"
	AttrIndexPartition = "upk"
	AttrIndexSort      = "usk"
	AttrTTL            = "ttl"
)

// Index is the sparse index that lists what is unsettled.
const Index = "unsettled"

// Names are the names of one stage's resources.
type Names struct {
	Stage   string
	Table   string
	Machine string
}

// ForStage returns the names for stage, such as "dev" or "local".
func ForStage(stage string) Names {
	return Names{Stage: stage, Table: "onceward-" + stage, Machine: "onceward-" + stage + "-agent-run"}
}

// Function returns the deployed name of the function in folder functions/<name>.
func (n Names) Function(name string) string { return "onceward-" + n.Stage + "-" + name }
