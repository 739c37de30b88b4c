package dynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/localstack/dynamodb"
	"github.com/onceward/onceward/localstack/dynamodb/enginetest"
	"github.com/onceward/onceward/localstack/faults"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(enginetest.Wrap(m)) }

func connect(t *testing.T, endpoint string) *sdk.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("AKIALOCAL", "secret", ""),
		HTTPClient:  &http.Client{Transport: transport},
	})
}

func createTable(ctx context.Context, client *sdk.Client, name string) error {
	_, err := client.CreateTable(ctx, &sdk.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		return err
	}
	return sdk.NewTableExistsWaiter(client, func(o *sdk.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 10*time.Millisecond, 50*time.Millisecond
	}).Wait(ctx, &sdk.DescribeTableInput{TableName: &name}, 10*time.Second)
}

// reserve writes an item if there is none of its key.
func reserve(table, key, token string) *sdk.PutItemInput {
	return &sdk.PutItemInput{
		TableName: &table,
		Item: map[string]types.AttributeValue{
			"pk":    &types.AttributeValueMemberS{Value: key},
			"token": &types.AttributeValueMemberS{Value: token},
		},
		ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

func token(item map[string]types.AttributeValue) string {
	s, ok := item["token"].(*types.AttributeValueMemberS)
	if !ok {
		return ""
	}
	return s.Value
}

// TestLostAnswerIsRetriedAndRefusedByItsOwnWrite shows the trap: the SDK hears
// nothing, asks again by itself, and is told that somebody was first.
func TestLostAnswerIsRetriedAndRefusedByItsOwnWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind    dynamodb.Kind
		oldItem string
	}{
		{dynamodb.Dynoxide, "mine"},
		{dynamodb.Dynalite, ""}, // it returns no old item: the writer must look
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			t.Parallel()
			proxy, err := dynamodb.NewProxy(enginetest.Start(t, string(c.kind)))
			if err != nil {
				t.Fatal(err)
			}
			plan := faults.NewPlan(faults.Options{})
			server := httptest.NewServer(plan.Middleware(proxy))
			defer server.Close()
			client := connect(t, server.URL)
			table := enginetest.Table(t)
			if err := createTable(t.Context(), client, table); err != nil {
				t.Fatal(err)
			}
			plan.ResetRequests()
			_, err = plan.Arm(faults.Rule{Service: faults.DynamoDB, Operation: "PutItem", Effect: faults.DropAnswer})
			if err != nil {
				t.Fatal(err)
			}

			_, err = client.PutItem(t.Context(), reserve(table, "k", "mine"))
			refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
			if !ok {
				t.Fatalf("got %v, want the refusal of the SDK's own second request", err)
			}
			if got := token(refused.Item); got != c.oldItem {
				t.Errorf("the item that was first is %q, want %q", got, c.oldItem)
			}
			found, err := client.GetItem(t.Context(), &sdk.GetItemInput{
				TableName: &table, ConsistentRead: aws.Bool(true),
				Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "k"}},
			})
			if err != nil || token(found.Item) != "mine" {
				t.Errorf("stored %q, %v", token(found.Item), err)
			}
			want := []faults.RequestCount{
				{Request: faults.Request{Service: faults.DynamoDB, Operation: "GetItem"}, Requests: 1},
				{Request: faults.Request{Service: faults.DynamoDB, Operation: "PutItem"}, Requests: 2},
			}
			if diff := cmp.Diff(want, plan.Requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLostRequestIsRetriedAndWins(t *testing.T) {
	t.Parallel()
	proxy, err := dynamodb.NewProxy(enginetest.Start(t, "dynoxide"))
	if err != nil {
		t.Fatal(err)
	}
	plan := faults.NewPlan(faults.Options{})
	server := httptest.NewServer(plan.Middleware(proxy))
	defer server.Close()
	client := connect(t, server.URL)
	table := enginetest.Table(t)
	if err := createTable(t.Context(), client, table); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Arm(faults.Rule{Operation: "PutItem", Times: 2, Effect: faults.DropRequest}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutItem(t.Context(), reserve(table, "k", "mine")); err != nil {
		t.Errorf("got %v, want the third request to be the first that arrives", err)
	}
	if n := plan.Count(faults.Request{Operation: "PutItem"}); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestArmedErrorIsDecodedByTheSDK(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	server := httptest.NewServer(plan.Middleware(http.NotFoundHandler()))
	defer server.Close()
	_, err := plan.Arm(faults.Rule{
		Service: faults.DynamoDB, Times: 10, Effect: faults.AnswerError, Code: "ProvisionedThroughputExceededException",
	})
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, server.URL)
	_, err = client.PutItem(t.Context(), reserve("t", "k", "mine"), func(o *sdk.Options) { o.RetryMaxAttempts = 1 })
	if _, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err); !ok {
		t.Errorf("got %v", err)
	}
}

func program(t *testing.T, kind dynamodb.Kind) dynamodb.Program {
	t.Helper()
	enginetest.Start(t, string(kind)) // skips or fails where it is missing
	p, err := dynamodb.FindKind(filepath.Join("..", ".."), kind)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAcknowledgedWritesInAFileSurviveTheEngine(t *testing.T) {
	t.Parallel()
	for _, kind := range dynamodb.Kinds() {
		for name, end := range map[string]func(*dynamodb.Engine, context.Context) error{
			"stopped": (*dynamodb.Engine).Stop,
			"killed": func(e *dynamodb.Engine, _ context.Context) error {
				e.Kill()
				return nil
			},
		} {
			t.Run(fmt.Sprintf("%s %s", kind, name), func(t *testing.T) {
				t.Parallel()
				p := program(t, kind)
				options := dynamodb.Options{File: filepath.Join(t.TempDir(), "data")}
				first, err := dynamodb.Start(t.Context(), p, options)
				if err != nil {
					t.Fatal(err)
				}
				client := connect(t, first.Endpoint())
				if err := createTable(t.Context(), client, "kept"); err != nil {
					t.Fatal(err)
				}
				if _, err := client.PutItem(t.Context(), reserve("kept", "k", "mine")); err != nil {
					t.Fatal(err)
				}
				if err := end(first, t.Context()); err != nil {
					t.Errorf("ended: %v", err)
				}
				second, err := dynamodb.Start(t.Context(), p, options)
				if err != nil {
					t.Fatal(err)
				}
				defer second.Kill()
				_, err = connect(t, second.Endpoint()).PutItem(t.Context(), reserve("kept", "k", "other"))
				if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); !ok {
					t.Errorf("a second reservation: %v, want it refused", err)
				}
			})
		}
	}
}

func TestNothingAcknowledgedIsLostByAKillAmongWriters(t *testing.T) {
	t.Parallel()
	for _, kind := range dynamodb.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := program(t, kind)
			options := dynamodb.Options{File: filepath.Join(t.TempDir(), "data")}
			first, err := dynamodb.Start(t.Context(), p, options)
			if err != nil {
				t.Fatal(err)
			}
			client := connect(t, first.Endpoint())
			if err := createTable(t.Context(), client, "kept"); err != nil {
				t.Fatal(err)
			}
			acknowledged := writeUntilKilled(t, client, first)
			second, err := dynamodb.Start(t.Context(), p, options)
			if err != nil {
				t.Fatal(err)
			}
			defer second.Kill()
			client = connect(t, second.Endpoint())
			for _, key := range acknowledged {
				found, err := client.GetItem(t.Context(), &sdk.GetItemInput{
					TableName: aws.String("kept"), ConsistentRead: aws.Bool(true),
					Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: key}},
				})
				if err != nil || token(found.Item) != "token of "+key {
					t.Fatalf("%s after the kill of %d acknowledged: %q, %v", key, len(acknowledged), token(found.Item), err)
				}
			}
		})
	}
}

// writeUntilKilled lets eight writers write until a kill stops them, so that it
// falls into the middle of writes, and returns what was acknowledged.
func writeUntilKilled(t *testing.T, client *sdk.Client, engine *dynamodb.Engine) (acknowledged []string) {
	t.Helper()
	var mu sync.Mutex
	enough := make(chan struct{})
	var writers sync.WaitGroup
	for writer := range 8 {
		writers.Go(func() {
			for n := 0; ; n++ {
				key := fmt.Sprintf("%d:%d", writer, n)
				_, err := client.PutItem(t.Context(), reserve("kept", key, "token of "+key), func(o *sdk.Options) { o.RetryMaxAttempts = 1 })
				if err != nil {
					return
				}
				mu.Lock()
				if acknowledged = append(acknowledged, key); len(acknowledged) == 200 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	engine.Kill()
	writers.Wait()
	return acknowledged
}

func TestEngineThatIgnoresTheRequestToStopIsKilled(t *testing.T) {
	t.Parallel()
	e, err := dynamodb.Start(t.Context(), program(t, dynamodb.Dynoxide), dynamodb.Options{
		File: filepath.Join(t.TempDir(), "data"), StopTimeout: time.Nanosecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(t.Context()); !errors.Is(err, dynamodb.ErrUnclean) {
		t.Errorf("got %v", err)
	}
	select {
	case <-e.Exited():
	default:
		t.Error("the process lives on")
	}
	if err := e.Stop(t.Context()); !errors.Is(err, dynamodb.ErrUnclean) {
		t.Errorf("stopped again: %v", err)
	}
}

func TestEngineThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	p := program(t, dynamodb.Dynoxide)
	_, err := dynamodb.Start(t.Context(), p, dynamodb.Options{File: filepath.Join(t.TempDir(), "missing", "data")})
	if err == nil || !strings.Contains(err.Error(), "dynoxide did not start: it ended at once (exit status 1)") || !strings.Contains(err.Error(), "it said: ") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dynamodb.Start(ctx, p, dynamodb.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := dynamodb.Start(t.Context(), dynamodb.Program{}, dynamodb.Options{}); err == nil {
		t.Error("an empty program started")
	}
}

func TestMissingEngineIsReportedWithItsRemedy(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	_, err := dynamodb.Find(root)
	if !errors.Is(err, dynamodb.ErrNotInstalled) || !strings.Contains(err.Error(), "npm ci") {
		t.Errorf("got %v", err)
	}
	if _, err := dynamodb.FindKind(root, "mongo"); err == nil || errors.Is(err, dynamodb.ErrNotInstalled) {
		t.Errorf("got %v", err)
	}
}

func TestProxyAnswersForAnEngineThatIsGone(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	proxy, err := dynamodb.NewProxy(gone.URL)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(proxy)
	defer server.Close()
	_, err = connect(t, server.URL).PutItem(t.Context(), reserve("t", "k", "mine"), func(o *sdk.Options) { o.RetryMaxAttempts = 1 })
	if err == nil || !strings.Contains(err.Error(), "StatusCode: 503") || !strings.Contains(err.Error(), "ServiceUnavailable") {
		t.Errorf("got %v", err)
	}
	for _, endpoint := range []string{"", "localhost:8000", "ftp://x", "http://", "http://a b"} {
		if _, err := dynamodb.NewProxy(endpoint); err == nil {
			t.Errorf("endpoint %q was accepted", endpoint)
		}
	}
}

// TestProxySendsEachRequestOnce lets a kept-alive connection die under a
// request, which net/http would send again if it took it for replayable.
func TestProxySendsEachRequestOnce(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 10)
	engine := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("X-Amz-Target")
		if r.Header.Get("X-Amz-Target") == "PutItem" {
			panic(http.ErrAbortHandler)
		}
	}))
	defer engine.Close()
	proxy, err := dynamodb.NewProxy(engine.URL)
	if err != nil {
		t.Fatal(err)
	}
	sent := []string{"GetItem", "PutItem", "GetItem", "PutItem"}
	for i, operation := range sent {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader([]string{"{}", ""}[i/2]))
		r.Header.Set("X-Amz-Target", operation)
		r.Header.Set("Idempotency-Key", "k") // net/http would replay such a request
		proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	engine.Close() // waits for its handlers
	close(arrived)
	var got []string
	for target := range arrived {
		got = append(got, target)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("the engine received (-want +got):\n%s", diff)
	}
}

func TestEngineIsFoundUnderTheModule(t *testing.T) {
	t.Parallel()
	for _, kind := range dynamodb.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			if got := program(t, kind).Kind(); got != kind {
				t.Errorf("got %s", got)
			}
		})
	}
}
