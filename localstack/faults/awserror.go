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
	var contentType string
	var body any
	switch service {
	case DynamoDB, StepFunctions:
		contentType = "application/x-amz-json-1.0"
		body = map[string]string{"__type": rule.Code, "message": message}
	case Lambda:
		contentType = "application/json"
		w.Header().Set("X-Amzn-ErrorType", rule.Code)
		fault := "User"
		if rule.Status >= http.StatusInternalServerError {
			fault = "Service"
		}
		body = map[string]string{"Type": fault, "Message": message}
	case Operator:
		contentType = "application/problem+json"
		body = map[string]any{
			"type": "about:blank", "title": http.StatusText(rule.Status), "status": rule.Status,
			"code": rule.Code, "detail": message,
		}
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-RequestId", rand.Text())
	w.WriteHeader(rule.Status)
	_ = json.NewEncoder(w).Encode(body)
}
