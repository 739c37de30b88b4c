package faults_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/onceward/onceward/localstack/faults"
)

// sdkConfig connects an SDK to a handler. It makes one attempt, or more
// without a pause between them.
func sdkConfig(t *testing.T, handler http.Handler, attempts int) aws.Config {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL), HTTPClient: server.Client(),
		Credentials: credentials.NewStaticCredentialsProvider("AKIALOCAL", "secret", ""),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts = attempts
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
		},
	}
}

// shelf is a DynamoDB with one place, which the first PutItem takes.
func shelf() http.Handler {
	taken := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || len(body) == 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		select {
		case taken <- struct{}{}:
			_, _ = io.WriteString(w, "{}")
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed"}`)
		}
	})
}

func anItem() *dynamodb.PutItemInput {
	return &dynamodb.PutItemInput{
		TableName: aws.String("t"), ConditionExpression: aws.String("attribute_not_exists(pk)"),
		Item: map[string]dynamodbtypes.AttributeValue{"pk": &dynamodbtypes.AttributeValueMemberS{Value: "k"}},
	}
}

func statusOf(err error) int {
	if answered, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return answered.HTTPStatusCode()
	}
	return 0
}

func TestThrottlingIsDecodedByTheSDKOfEachService(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	if _, err := plan.Arm(faults.Rule{Times: 3, Effect: faults.Throttle}); err != nil {
		t.Fatal(err)
	}
	config := sdkConfig(t, plan.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a throttled request was handled")
	})), 1)

	_, err := dynamodb.NewFromConfig(config).PutItem(t.Context(), anItem())
	if _, ok := errors.AsType[*dynamodbtypes.ProvisionedThroughputExceededException](err); !ok || statusOf(err) != http.StatusBadRequest {
		t.Errorf("DynamoDB: %v", err)
	}
	_, err = sfn.NewFromConfig(config).SendTaskSuccess(t.Context(), &sfn.SendTaskSuccessInput{TaskToken: aws.String("t"), Output: aws.String("{}")})
	if refused, ok := errors.AsType[smithy.APIError](err); !ok || refused.ErrorCode() != "ThrottlingException" || statusOf(err) != http.StatusBadRequest {
		t.Errorf("Step Functions: %v", err)
	}
	_, err = lambda.NewFromConfig(config).Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("planner")})
	refused, ok := errors.AsType[*lambdatypes.TooManyRequestsException](err)
	if !ok || statusOf(err) != http.StatusTooManyRequests {
		t.Fatalf("Lambda: %v", err)
	}
	if refused.Reason != lambdatypes.ThrottleReasonReservedFunctionConcurrentInvocationLimitExceeded || aws.ToString(refused.Message) == "" {
		t.Errorf("Lambda: reason %q, message %q", refused.Reason, aws.ToString(refused.Message))
	}
}

func TestThrottledOperatorIsAnsweredByTheGateway(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	if _, err := plan.Arm(faults.Rule{Service: faults.Operator, Operation: "resolve", Effect: faults.Throttle}); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	plan.Middleware(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/tool-executions/r:c/resolve", http.NoBody))
	if got := w.Body.String(); w.Code != http.StatusTooManyRequests || got != `{"message":"Too Many Requests"}`+"\n" {
		t.Errorf("%d %s", w.Code, got)
	}
}

func TestThrottledRequestIsSentAgainByTheSDKAndWins(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	if _, err := plan.Arm(faults.Rule{Operation: "PutItem", Times: 2, Effect: faults.Throttle}); err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(sdkConfig(t, plan.Middleware(shelf()), 3))
	if _, err := client.PutItem(t.Context(), anItem()); err != nil {
		t.Errorf("got %v, want the third request to be the first that is handled", err)
	}
	if n := plan.Count(faults.Request{Operation: "PutItem"}); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// TestDuplicatedWriteIsRefusedByItself shows what a network that repeats a
// request does to a conditional write: it took place, and its writer hears that
// somebody was first.
func TestDuplicatedWriteIsRefusedByItself(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	if _, err := plan.Arm(faults.Rule{Service: faults.DynamoDB, Operation: "PutItem", Effect: faults.Duplicate}); err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(sdkConfig(t, plan.Middleware(shelf()), 3))
	_, err := client.PutItem(t.Context(), anItem())
	if _, ok := errors.AsType[*dynamodbtypes.ConditionalCheckFailedException](err); !ok {
		t.Errorf("got %v, want the refusal of the second copy", err)
	}
	if n := plan.Count(faults.Request{Operation: "PutItem"}); n != 1 {
		t.Errorf("%d requests, want the one that was sent", n)
	}
}

func TestOutageOutlastsTheRetriesOfTheSDKAndEndsWithItsRule(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	id, err := plan.Arm(faults.Rule{Service: faults.DynamoDB, Effect: faults.Outage})
	if err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(sdkConfig(t, plan.Middleware(shelf()), 4))
	_, err = client.PutItem(t.Context(), anItem())
	if !errors.Is(err, io.EOF) || statusOf(err) != 0 {
		t.Errorf("got %v, want no answer at all", err)
	}
	if rule := plan.Rules()[0]; rule.Hits != 4 {
		t.Errorf("%d requests struck, want all 4 attempts", rule.Hits)
	}
	if err := plan.Disarm(id); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutItem(t.Context(), anItem()); err != nil {
		t.Errorf("after the outage: %v, want the first write that arrives to win", err)
	}
}
