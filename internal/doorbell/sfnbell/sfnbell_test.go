package sfnbell

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/internal/doorbell"
)

var _ doorbell.Doorbell = Bell{}

type client struct {
	err  error
	sent []string
}

func (c *client) SendTaskSuccess(_ context.Context, in *sfn.SendTaskSuccessInput, _ ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error) {
	c.sent = append(c.sent, *in.TaskToken)
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
