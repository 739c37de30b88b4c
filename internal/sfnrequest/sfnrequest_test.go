package sfnrequest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/internal/sfnrequest"
)

func TestRequestIsSentOnceWhateverTheClientsRetriesAre(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"__type":"InternalError"}`)
	}))
	t.Cleanup(server.Close)
	client := sfn.New(sfn.Options{
		BaseEndpoint: aws.String(server.URL), Region: "eu-central-1", RetryMaxAttempts: 5, RetryMode: aws.RetryModeAdaptive,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	})
	_, err := client.SendTaskSuccess(t.Context(), &sfn.SendTaskSuccessInput{TaskToken: aws.String("t"), Output: aws.String("{}")}, sfnrequest.Once)
	if err == nil || requests.Load() != 1 {
		t.Errorf("%d requests, %v", requests.Load(), err)
	}
}

func TestRequestIsBounded(t *testing.T) {
	t.Parallel()
	ctx, cancel := sfnrequest.Bounded(t.Context())
	defer cancel()
	if _, limited := ctx.Deadline(); !limited {
		t.Error("it has no end")
	}
}

func TestWordSaysNothingOfWhatWasSent(t *testing.T) {
	t.Parallel()
	const secret = "token-or-input"
	for want, err := range map[string]error{
		"ExecutionLimitExceeded": fmt.Errorf("%s: %w", secret, &types.ExecutionLimitExceeded{Message: aws.String(secret)}),
		"no time left":           fmt.Errorf("%s: %w", secret, context.DeadlineExceeded),
		"no answer":              errors.New("connection reset: " + secret),
	} {
		if got := sfnrequest.Word(err); got != want || strings.Contains(got, secret) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
