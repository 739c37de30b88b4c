package faults

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
)

// writeError answers a rule's error the way the service would word it.
func writeError(w http.ResponseWriter, service Service, rule Rule) {
	message := rule.Message
	if message == "" {
		message = "fault " + rule.ID
	}
	switch service {
	case DynamoDB, StepFunctions:
		write(w, rule.Status, amzJSON, map[string]string{"__type": rule.Code, "message": message})
	case Lambda:
		w.Header().Set("X-Amzn-ErrorType", rule.Code)
		fault := "User"
		if rule.Status >= http.StatusInternalServerError {
			fault = "Service"
		}
		write(w, rule.Status, plainJSON, map[string]string{"Type": fault, "Message": message})
	case Operator:
		write(w, rule.Status, "application/problem+json", map[string]any{
			"type": "about:blank", "title": http.StatusText(rule.Status), "status": rule.Status,
			"code": rule.Code, "detail": message,
		})
	}
}

// writeThrottled answers that the service has had enough, with the code,
// status and text of each; in front of the operator's API stands API Gateway.
func writeThrottled(w http.ResponseWriter, service Service) {
	switch service {
	case DynamoDB:
		write(w, http.StatusBadRequest, amzJSON, map[string]string{
			"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
			"message": "The level of configured provisioned throughput for the table was exceeded. " +
				"Consider increasing your provisioning level with the UpdateTable API.",
		})
	case StepFunctions:
		write(w, http.StatusBadRequest, amzJSON, map[string]string{"__type": "ThrottlingException", "message": "Rate exceeded"})
	case Lambda:
		w.Header().Set("X-Amzn-ErrorType", "TooManyRequestsException")
		write(w, http.StatusTooManyRequests, plainJSON, map[string]string{
			"Reason": "ReservedFunctionConcurrentInvocationLimitExceeded", "Type": "User", "message": "Rate Exceeded.",
		})
	case Operator:
		write(w, http.StatusTooManyRequests, plainJSON, map[string]string{"message": "Too Many Requests"})
	}
}

const (
	amzJSON   = "application/x-amz-json-1.0"
	plainJSON = "application/json"
)

func write(w http.ResponseWriter, status int, contentType string, body any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-RequestId", rand.Text())
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
