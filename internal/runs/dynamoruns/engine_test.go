package dynamoruns_test

import (
	"context"
	"net/http"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/internal/table"
	"github.com/onceward/onceward/localstack/dynamodb/enginetest"
)

const tableName = "onceward-runs-test"

func TestMain(m *testing.M) { os.Exit(enginetest.Wrap(m).Run()) }

// engine returns where the engine of that kind answers, with the table made.
// dynoxide returns the item that refused a write, dynalite does not.
func engine(t *testing.T, kind string) string {
	t.Helper()
	url := enginetest.Start(t, kind)
	if err := table.Create(t.Context(), client(url, nil), tableName); err != nil {
		t.Fatal(err)
	}
	return url
}

func client(url string, transport http.RoundTripper) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(url), HTTPClient: &http.Client{Transport: transport},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	})
}
