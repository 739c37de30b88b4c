package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// Proves: R136, R138
func TestALineNamesTheRunAndTheHashAndTellsAReplayFromTheFirst(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	store, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	guard, err := once.New(store, &once.Options{Observers: []once.Observer{logged(slog.New(slog.NewJSONHandler(&text, nil)))}})
	if err != nil {
		t.Fatal(err)
	}
	issue, err := once.Bind(guard, on(t, r.url).issueCredit())
	if err != nil {
		t.Fatal(err)
	}
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "req-1"})
	req := request(t)
	for _, account := range []string{"CANARY-account", "CANARY-account"} {
		issue.Do(ctx, req, creditIn{AccountID: account, AmountCents: 2500})
	}
	req.CallID = "call_2"
	issue.Do(ctx, req, creditIn{AccountID: "CANARY-lose-answer-lookup-down", AmountCents: 2500})
	type line struct {
		Level, Tool, Status, Effect string
		RunID                       string `json:"run"`
		KeyHash                     string `json:"key_hash"`
		RequestID                   string `json:"request_id"`
		Replayed                    bool
	}
	var got []line
	for one := range strings.Lines(text.String()) {
		var l line
		if err := json.Unmarshal([]byte(one), &l); err != nil {
			t.Fatal(err)
		}
		if l.RunID != req.RunID || len(l.KeyHash) != 26 || l.RequestID != "req-1" || l.Tool != "issue_credit" {
			t.Errorf("line %s", one)
		}
		got = append(got, l)
	}
	if len(got) != 3 || got[0].Replayed || !got[1].Replayed || got[0].KeyHash != got[1].KeyHash || got[0].Effect != "happened" ||
		got[2].Level != "WARN" || got[2].Effect != "unknown" || got[2].KeyHash == got[0].KeyHash {
		t.Errorf("lines %+v", got)
	}
	if strings.Contains(text.String(), "CANARY") {
		t.Errorf("the log holds a canary: %s", &text)
	}
}
