package main

import (
	"crypto/rand"
	"strings"

	"github.com/onceward/onceward/localstack/stack"
)

// freshRun returns the id of a run that no stack has seen: one that keeps its data
// may know those of earlier starts.
func freshRun() string { return "try-" + strings.ToLower(rand.Text()[:6]) }

// pasteLines are lines for another terminal: start a run whose answer is lost and
// that nobody can look up, see it wait, see what the receiver holds, settle it.
func pasteLines(s *stack.Stack, run string) string {
	return strings.NewReplacer(
		"$URL", s.URL, "$BILLING", s.BillingURL, "$MACHINE", stack.MachineARN(s.Names.Machine), "$ACCOUNT", run+"-lose-answer-lookup-down", "$RUN", run,
	).Replace(`
Paste these, one after the other. The first starts a run that issues a credit whose
answer is lost and that can't be looked up; the second shows it waiting for you; the
third asks the billing service what it has done for the account; the fourth says what
you found, and the run goes on.

AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local aws --endpoint-url $URL --region us-east-1 stepfunctions start-execution --state-machine-arn $MACHINE --name $RUN --input '{"run_id":"$RUN","principal":{"subject":"you","permissions":["credits:write"]},"script":{"turns":[{"calls":[{"id":"call_1","tool":"issue_credit","arguments":{"account_id":"$ACCOUNT","amount_cents":2500}}]}],"answer":"Done."}}'
curl -s -H 'Authorization: Bearer dev::you' $URL/v1/tool-executions
curl -s '$BILLING/_effects?account_id=$ACCOUNT'
curl -s -H 'Authorization: Bearer dev::you' -H 'Content-Type: application/json' $URL/v1/tool-executions/$RUN:call_1/resolve -d '{"outcome":"completed","reason":"seen in the billing service","expected_version":2}'

`)
}
