package faults

import "slices"

// Operations lists, in alphabetical order, the operations of a service that a
// rule may name: those of DynamoDB's API, for any engine may stand behind it,
// and those that the local services answer. It is empty for an unknown service.
func Operations(service Service) []string {
	switch service {
	case DynamoDB:
		return []string{
			"BatchExecuteStatement", "BatchGetItem", "BatchWriteItem", "CancelBulkOperation", "CreateBackup",
			"CreateGlobalTable", "CreateTable", "DeleteBackup", "DeleteItem", "DeleteResourcePolicy", "DeleteTable",
			"DescribeBackup", "DescribeBulkOperation", "DescribeContinuousBackups", "DescribeContributorInsights",
			"DescribeEndpoints", "DescribeExport", "DescribeGlobalTable", "DescribeGlobalTableSettings",
			"DescribeImport", "DescribeKinesisStreamingDestination", "DescribeLimits", "DescribeTable",
			"DescribeTableReplicaAutoScaling", "DescribeTimeToLive", "DisableKinesisStreamingDestination",
			"EnableKinesisStreamingDestination", "ExecuteStatement", "ExecuteTransaction",
			"ExportTableToPointInTime", "GetItem", "GetResourcePolicy", "ImportTable", "ListBackups",
			"ListBulkOperations", "ListContributorInsights", "ListExports", "ListGlobalTables", "ListImports",
			"ListTables", "ListTagsOfResource", "PutItem", "PutResourcePolicy", "Query", "RestoreTableFromBackup",
			"RestoreTableToPointInTime", "Scan", "SearchVectors", "StartBulkPutItems", "TagResource",
			"TransactGetItems", "TransactWriteItems", "UntagResource", "UpdateContinuousBackups",
			"UpdateContributorInsights", "UpdateGlobalTable", "UpdateGlobalTableSettings", "UpdateItem",
			"UpdateKinesisStreamingDestination", "UpdateTable", "UpdateTableReplicaAutoScaling", "UpdateTimeToLive",
		}
	case StepFunctions:
		return []string{
			"CreateStateMachine", "DeleteStateMachine", "DescribeExecution", "DescribeStateMachine",
			"GetExecutionHistory", "ListExecutions", "ListStateMachines", "RedriveExecution", "SendTaskFailure",
			"SendTaskHeartbeat", "SendTaskSuccess", "StartExecution", "StopExecution", "UpdateStateMachine",
			"ValidateStateMachineDefinition",
		}
	case Lambda:
		return []string{"GetFunction", "GetFunctionConfiguration", "Invoke", "ListFunctions"}
	case Operator:
		return []string{
			"acknowledge", "approve", "compensate", "deny", "list", "reconcile", "resolve", "resume", "run", "runs", "show",
			"start", "withdraw",
		}
	}
	return nil
}

// checkOperation refuses an operation that no service of the rule has: such a
// rule would never apply, and a test that waits for it would prove nothing.
func (r Rule) checkOperation(bad *RuleError) {
	services := Services()
	switch {
	case r.Service != "":
		services = []Service{r.Service}
	case r.Function != "":
		services = []Service{Lambda} // only its requests name a function
	}
	var known []string
	for _, s := range services {
		known = append(known, Operations(s)...)
	}
	// An unknown service has no operations; it is refused itself.
	if r.Operation != "" && len(known) > 0 && !slices.Contains(known, r.Operation) {
		bad.add("operation", "unknown operation %q, known are %v", r.Operation, known)
	}
}
