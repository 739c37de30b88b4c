package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/startup"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
	"github.com/onceward/onceward/middleware/once"
)

// envEpoch is the epoch of the rules that approvals are given under.
const envEpoch = "APPROVAL_POLICY"

// newHandler guards the tools with the ledger that the environment names.
func newHandler(ctx context.Context, env func(string) string) (lambda.Handler, error) {
	table, err := startup.Setting(env, names.EnvTable)
	if err != nil {
		return nil, err
	}
	epoch, err := strconv.Atoi("0" + env(envEpoch))
	if err != nil {
		return nil, fmt.Errorf("testtools: %s: %w", envEpoch, err)
	}
	// Without a bound on each try: a request that a test holds stays the one.
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	store, err := dynamoledger.New(dynamodb.NewFromConfig(cfg), table, nil)
	if err != nil {
		return nil, err
	}
	guard, err := once.New(store, &once.Options{Reserve: reserve})
	if err != nil {
		return nil, err
	}
	approved, short := act("act_approved"), act("act_approved_soon")
	approved.ApproveWithin, approved.ApprovalPolicy = time.Hour, epoch
	short.ApproveWithin = 200 * time.Millisecond
	return guard.Handler(act("act"), approved, short, read())
}

// An attempt is short, so that an executor which is held is soon past its
// deadline; and it has long to say its last word.
const (
	attemptTimeout = 1500 * time.Millisecond
	reserve        = 80 * time.Second
)

// order says what a tool shall do.
type order struct {
	Does   string `json:"does" jsonschema:"completes, sends_nothing, is_rejected or loses_track"`
	Finds  string `json:"finds,omitempty" jsonschema:"effect, nothing, or empty: the look-up can't tell"`
	Undoes string `json:"undoes,omitempty" jsonschema:"as does, for the undo"`
}

type done struct {
	ID string `json:"id"`
}

var errOrdered = errors.New("as ordered")

func outcome(does string) error {
	switch does {
	case "completes":
		return nil
	case "sends_nothing":
		return once.NotAttempted(errOrdered)
	case "is_rejected":
		return once.Rejected(errOrdered)
	}
	return errOrdered
}

func act(name string) once.Tool[order, done] {
	return once.Tool[order, done]{
		Name: name, Description: "Does as ordered.", Class: once.External, Timeout: attemptTimeout,
		ExternalID: func(d done) string { return d.ID },
		Run:        func(_ context.Context, in order) (done, error) { return done{ID: "made"}, outcome(in.Does) },
		Reconcile: func(_ context.Context, _ ledger.Record, in order) (done, bool, error) {
			if in.Finds == "" {
				return done{}, false, errOrdered
			}
			return done{ID: "found"}, in.Finds == "effect", nil
		},
		// Nobody stores the arguments of a call that belongs to no run.
		Summary:         func(in order) string { return in.Undoes },
		CompensateByKey: true,
		Compensate:      func(_ context.Context, rec ledger.Record, _ order) error { return outcome(rec.Summary) },
		Downstream:      once.Downstream{AbsenceIsProof: true, SettleDelay: time.Millisecond},
	}
}

func read() once.Tool[order, done] {
	return once.Tool[order, done]{
		Name: "read", Description: "Reads as ordered.", Class: once.Read, Timeout: attemptTimeout, Journal: true,
		Run: func(_ context.Context, in order) (done, error) { return done{ID: "read"}, outcome(in.Does) },
	}
}
