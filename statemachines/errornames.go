package statemachines

import (
	"slices"

	"github.com/onceward/onceward/internal/names"
)

// ErrorName is a name that Step Functions may report for an error.
type ErrorName struct {
	// Name is what ErrorEquals compares.
	Name string
	// Why says what the name means, in a few words.
	Why string
	// Passing says that waiting a little may help; a lasting error is left to
	// the desk. Meaningful for HandlerNotEntered only.
	Passing bool
}

// HandlerNotEntered returns the errors of a Lambda invocation that mean that the
// handler's code was not entered, so that the same request may be sent again
// without a look at the ledger. Whatever isn't listed, such as
// Lambda.ServiceException or States.Timeout, may have run the tool. The caller
// owns the slice.
func HandlerNotEntered() []ErrorName { return slices.Clone(handlerNotEntered) }

// OwnErrors returns the names by which an execution of ours fails.
func OwnErrors() []ErrorName { return slices.Clone(ownErrors) }

var handlerNotEntered = []ErrorName{
	{Name: "Lambda.TooManyRequestsException", Why: "throttled at the front", Passing: true},
	{Name: "Lambda.EC2ThrottledException", Why: "throttled while the network was set up", Passing: true},
	{Name: "Lambda.EC2UnexpectedException", Why: "the network could not be set up", Passing: true},
	{Name: "Lambda.EC2AccessDeniedException", Why: "no permission to set up the network"},
	{Name: "Lambda.ENILimitReachedException", Why: "no network interface left", Passing: true},
	{Name: "Lambda.ENINotReadyException", Why: "the network interface is not ready", Passing: true},
	{Name: "Lambda.SubnetIPAddressLimitReachedException", Why: "no address left in the subnets", Passing: true},
	{Name: "Lambda.InvalidSubnetIDException", Why: "no such subnet"},
	{Name: "Lambda.InvalidSecurityGroupIDException", Why: "no such security group"},
	{Name: "Lambda.EFSMountConnectivityException", Why: "the file system could not be reached", Passing: true},
	{Name: "Lambda.EFSMountTimeoutException", Why: "mounting the file system took too long", Passing: true},
	{Name: "Lambda.EFSMountFailureException", Why: "the file system may not be mounted"},
	{Name: "Lambda.S3FilesMountConnectivityException", Why: "the access point could not be reached", Passing: true},
	{Name: "Lambda.S3FilesMountTimeoutException", Why: "mounting the access point took too long", Passing: true},
	{Name: "Lambda.S3FilesMountFailureException", Why: "the access point may not be mounted"},
	{Name: "Lambda.KMSAccessDeniedException", Why: "the environment may not be decrypted"},
	{Name: "Lambda.KMSDisabledException", Why: "the environment's key is disabled"},
	{Name: "Lambda.KMSInvalidStateException", Why: "the environment's key can't decrypt now"},
	{Name: "Lambda.KMSNotFoundException", Why: "the environment's key does not exist"},
	{Name: "Lambda.SnapStartNotReadyException", Why: "the snapshot is not ready", Passing: true},
	{Name: "Lambda.SnapStartTimeoutException", Why: "restoring the snapshot took too long", Passing: true},
	{Name: "Lambda.SnapStartRegenerationFailureException", Why: "the snapshot could not be renewed"},
	{Name: "Lambda.SnapStartException", Why: "the hook after restoring failed, before the handler"},
	{Name: "Lambda.CodeArtifactUserPendingException", Why: "the code's user is being made", Passing: true},
	{Name: "Lambda.CodeArtifactUserFailedException", Why: "the code's user could not be made"},
	{Name: "Lambda.CodeArtifactUserDeletedException", Why: "the code's user was deleted"},
	{Name: "Lambda.ResourceNotReadyException", Why: "the function is inactive", Passing: true},
	{Name: "Lambda.ResourceConflictException", Why: "the function is being changed", Passing: true},
	{Name: "Lambda.ResourceNotFoundException", Why: "no such function"},
	{Name: "Lambda.InvalidParameterValueException", Why: "a parameter of the request is not valid"},
	{Name: "Lambda.InvalidRequestContentException", Why: "the request is not JSON"},
	{Name: "Lambda.RequestTooLargeException", Why: "the request is too large"},
	{Name: "Lambda.RequestEntityTooLargeException", Why: "the request is too large; the code that the service sends"},
	{Name: "Lambda.UnsupportedMediaTypeException", Why: "the request's media type is not JSON"},
	{Name: "Lambda.InvalidRuntimeException", Why: "the runtime is not supported"},
	{Name: "Lambda.InvalidZipFileException", Why: "the package can't be unpacked"},
	{Name: "Lambda.RuntimeAliasDeletedException", Why: "the runtime's alias is gone"},
	{Name: "Lambda.RuntimeVersionDeletedException", Why: "the runtime's version is gone"},
	{Name: "Lambda.RecursiveInvocationException", Why: "stopped as a recursive loop"},
	{Name: "Lambda.ModeNotSupportedException", Why: "the function can't be invoked this way"},
	{Name: "States.Permissions", Why: "the machine may not invoke the function"},
}

// otherErrors are the names that a definition may also mention, outside the
// Retry of a state that may run a tool.
var otherErrors = []ErrorName{
	{Name: "States.ALL", Why: "any error"},
	{Name: "States.DataLimitExceeded", Why: "an answer of more than 256 KiB: the handler ran to its end"},
	{Name: "States.Timeout", Why: "the state's own timer; the function may still be running"},
	{Name: "States.HeartbeatTimeout", Why: "no heartbeat; the function may still be running"},
	{Name: "States.TaskFailed", Why: "any error of a task but its timeout"},
	{Name: "Lambda.ServiceException", Why: "Lambda failed; the handler may have run"},
	{Name: "Lambda.AWSLambdaException", Why: "Lambda failed; the handler may have run"},
	{Name: "Lambda.SdkClientException", Why: "the connection broke; the handler may have run"},
	{Name: "Lambda.ClientExecutionTimeoutException", Why: "the answer came too late; the handler may be running"},
	{Name: "Lambda.EFSIOException", Why: "the file system failed, perhaps in the middle of the handler"},
	{Name: "Lambda.Unknown", Why: "the sandbox died; the handler may have run"},
	{Name: "StepFunctions.ExecutionAlreadyExistsException", Why: "an execution of this name was started before"},
}

var ownErrors = []ErrorName{
	{Name: names.FailBadInput, Why: "the planner ends a run whose input it can't read; nothing was called"},
	{Name: names.FailCallUnresolved, Why: "the planner ends a run under the policy fail: a call's outcome is unknown"},
	{Name: names.FailDeadline, Why: "the planner ends a run that was at work for longer than it may, its waits not counted; what can be closed is closed"},
	{Name: names.FailTurnRefused, Why: "the planner ends a run whose model asked for more than a turn may hold; nothing of that turn was called"},
	{Name: "Onceward.PlannerLost", Why: "the planner could not be asked"},
	{Name: "Onceward.PlannerMisspoke", Why: "the planner's answer is not a known step"},
	{Name: "Onceward.TurnKeepsBreaking", Why: "the Map over a turn's calls ended in an error three times"},
	{Name: "Onceward.HandOverOverdue", Why: "the planner should have handed over long ago"},
	{Name: "Onceward.HandOverFailed", Why: "the next execution could not be started"},
}

func isHandlerNotEntered(name string) bool { return listed(handlerNotEntered, name) }

func isKnownError(name string) bool {
	return listed(handlerNotEntered, name) || listed(otherErrors, name) || listed(ownErrors, name)
}

func listed(table []ErrorName, name string) bool {
	return slices.ContainsFunc(table, func(e ErrorName) bool { return e.Name == name })
}
