package main

import (
	"strings"

	"github.com/onceward/onceward/localstack/stack"
)

// pasteLines are three lines for another terminal: start a run whose answer is
// lost and that nobody can look up, see it wait, settle it.
func pasteLines(s *stack.Stack) string {
	return strings.NewReplacer("$URL", s.URL, "$MACHINE", stack.MachineARN(s.Names.Machine)).Replace(`
Paste these, one after the other. The first starts a run that issues a credit whose
answer is lost and that can't be looked up; the second shows it waiting for you; the
third says what you found, and the run goes on.

AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local aws --endpoint-url $URL --region us-east-1 stepfunctions start-execution --state-machine-arn $MACHINE --name try-1 --input '{"run_id":"try-1","principal":{"subject":"you","permissions":["credits:write"]},"script":{"turns":[{"calls":[{"id":"call_1","tool":"issue_credit","arguments":{"account_id":"A1-lose-answer-lookup-down","amount_cents":2500}}]}],"answer":"Done."}}'
curl -s -H 'Authorization: Bearer dev::you' $URL/v1/tool-executions
curl -s -H 'Authorization: Bearer dev::you' -H 'Content-Type: application/json' $URL/v1/tool-executions/try-1:call_1/resolve -d '{"outcome":"completed","reason":"seen on the billing page","expected_version":2}'

`)
}
