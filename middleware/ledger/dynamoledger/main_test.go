package dynamoledger_test

import (
	"context"
	"net/http"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/internal/table"
	"github.com/onceward/onceward/localstack/dynamodb/enginetest"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

// The engines: one returns the item that made a condition fail, one does not.
const (
	dynoxide = "dynoxide"
	dynalite = "dynalite"
)

var kinds = []string{dynoxide, dynalite}

func TestMain(m *testing.M) { os.Exit(enginetest.Wrap(m).Run()) }

const tableName = "onceward-test"

// startTable returns the endpoint of an engine that has the ledger's table. It
// is shared: tests use tenants of their own.
func startTable(tb testing.TB, kind string) (endpoint string) {
	tb.Helper()
	endpoint = enginetest.Start(tb, kind)
	if err := table.Create(tb.Context(), newClient(endpoint, nil), tableName); err != nil {
		tb.Fatal(err)
	}
	return endpoint
}

func newClient(endpoint string, transport http.RoundTripper, options ...func(*dynamodb.Options)) *dynamodb.Client {
	o := dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(endpoint),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	}
	if transport != nil {
		o.HTTPClient = &http.Client{Transport: transport}
	}
	return dynamodb.New(o, options...)
}

func newStore(tb testing.TB, c dynamoledger.Client, o *dynamoledger.Options) *dynamoledger.Store {
	tb.Helper()
	s, err := dynamoledger.New(c, tableName, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
