package sfnbell

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/onceward/onceward/internal/doorbell"
)

var _ doorbell.Doorbell = Bell{}

type client struct {
	err      error
	sent     []string
	attempts int // as the request's options have it
	left     time.Duration
}

func (c *client) SendTaskSuccess(ctx context.Context, in *sfn.SendTaskSuccessInput, opts ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error) {
	c.sent = append(c.sent, *in.TaskToken)
	o := sfn.Options{Retryer: retry.NewStandard(), RetryMaxAttempts: 5}
	for _, set := range opts {
		set(&o)
	}
	c.attempts = max(o.RetryMaxAttempts, o.Retryer.MaxAttempts())
	if deadline, ok := ctx.Deadline(); ok {
		c.left = time.Until(deadline)
	}
	return &sfn.SendTaskSuccessOutput{}, c.err
}

// Proves: R119
func TestBellTellsNobodyWaitsFromNotKnown(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"":                 nil,
		"TaskTimedOut":     &types.TaskTimedOut{},
		"TaskDoesNotExist": &types.TaskDoesNotExist{},
		"InvalidToken":     &types.InvalidToken{},
	} {
		c := &client{err: err}
		got := New(c).Ring(t.Context(), "AQC-token")
		gone, isGone := errors.AsType[*doorbell.GoneError](got)
		if isGone != (want != "") || isGone && gone.How != want || !isGone && got != nil {
			t.Errorf("%v: %v", err, got)
		}
		if len(c.sent) != 1 || c.sent[0] != "AQC-token" {
			t.Errorf("sent %v", c.sent)
		}
	}
	for _, err := range []error{errors.New("reset by peer while sending AQC-token"), context.DeadlineExceeded, &types.KmsThrottlingException{}} {
		got := New(&client{err: err}).Ring(t.Context(), "AQC-token")
		if _, isGone := errors.AsType[*doorbell.GoneError](got); got == nil || isGone {
			t.Errorf("%v: %v; want not known", err, got)
		}
		if strings.Contains(got.Error(), "AQC-token") {
			t.Errorf("the token is in the error: %v", got)
		}
	}
}

func TestARingIsOneRequestOfAFewSeconds(t *testing.T) {
	t.Parallel()
	c := &client{}
	if err := New(c).Ring(t.Context(), "AQC-token"); err != nil || c.attempts != 1 || len(c.sent) != 1 {
		t.Errorf("%d requests of %d attempts, %v", len(c.sent), c.attempts, err)
	}
	if c.left <= 0 || c.left > 5*time.Second {
		t.Errorf("it may take %v", c.left)
	}
}

func TestARefusedBellIsToldFromOneWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{400: true, 403: true, 429: true, 500: false, 503: false} {
		answered := &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: &smithy.GenericAPIError{Code: "Some", Message: "AQC-token"}}
		err := New(&client{err: answered}).Ring(t.Context(), "AQC-token")
		if errors.Is(err, doorbell.ErrRefused) != want || strings.Contains(err.Error(), "AQC-token") {
			t.Errorf("%d: %v", status, err)
		}
	}
	if err := New(&client{err: context.DeadlineExceeded}).Ring(t.Context(), "AQC-token"); err == nil || errors.Is(err, doorbell.ErrRefused) {
		t.Errorf("no answer: %v", err)
	}
}
