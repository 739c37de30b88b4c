package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
)

// longTurns is more than one execution may have by its history, so that the run
// is handed over; longEdge is how many turns at each end are compared.
const (
	longTurns = 400
	longEdge  = 50
)

// Proves: R36, R41
func TestRunOfFourHundredTurnsPaysOnceEachAndItsTurnsStayAsQuickAndItsStateAsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: 400 turns teach the race detector nothing that a few do not")
	}
	run := ownRun(t)
	startRun(t, run, longInput(t, run))
	sizes := map[int]int{} // of RUN, by the turn that was open
	var item map[string]types.AttributeValue
	poll(t, 10*time.Minute, 50*time.Millisecond, "the run ends", func() bool {
		item = runItem(t, run)
		sizes[number(item["turn"])] = sizeOf(item)
		return item["ended_at"] != nil
	})
	effects := keyEffects(t, run)
	if effects.Credits != longTurns || effects.Sends != longTurns || len(effects.Keys) != longTurns {
		t.Errorf("%d credits, %d requests under %d keys; want %d of each", effects.Credits, effects.Sends, len(effects.Keys), longTurns)
	}
	if text(item["status"]) != "succeeded" || number(item["generation"]) < 2 {
		t.Errorf("the run %s in generation %d, want it handed over and succeeded", text(item["status"]), number(item["generation"]))
	}
	took := turnTimes(t, run)
	if len(took) != longTurns {
		t.Fatalf("%d turns, want %d", len(took), longTurns)
	}
	first, last := usual(took[:longEdge]), usual(took[len(took)-longEdge:])
	t.Logf("a turn takes %v at first and %v at last; %d bytes of state at most at first, %d at last; %d generations", first, last,
		largest(sizes, 1, longEdge), largest(sizes, longTurns-longEdge, longTurns), number(item["generation"]))
	// What a plan reads is counted in the planner's own tests; other programs on this
	// machine may make a turn slow, but hardly most of the last ones by so much.
	if last > 2*first {
		t.Errorf("a turn took %v at first and %v at last", first, last)
	}
	if small, big := largest(sizes, 1, longEdge), largest(sizes, longTurns-longEdge, longTurns); small == 0 || big == 0 || big > small+small/10 {
		t.Errorf("the run's state had %d bytes at first and %d at last", small, big)
	}
}

// longInput is a run with one credit a turn. The calls' ids are left to the
// planner, which keeps the input small.
func longInput(t *testing.T, run string) string {
	t.Helper()
	turns := make([]any, longTurns)
	for i := range turns {
		turns[i] = map[string]any{"calls": []any{map[string]any{"tool": "issue_credit", "arguments": map[string]any{"account_id": run, "amount_cents": 1 + i}}}}
	}
	return encodeString(t, map[string]any{
		"run_id": run, "principal": map[string]any{"subject": "customer-1", "permissions": []string{"credits:write"}},
		"script": map[string]any{"answer": "Done.", "turns": turns},
	})
}

func runItem(t *testing.T, run string) map[string]types.AttributeValue {
	t.Helper()
	out, err := database().GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(system.Names.Table), ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{
			names.AttrPartition: &types.AttributeValueMemberS{Value: ".#" + run}, names.AttrSort: &types.AttributeValueMemberS{Value: "RUN"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func text(v types.AttributeValue) string {
	s, _ := v.(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

func number(v types.AttributeValue) int {
	n, _ := v.(*types.AttributeValueMemberN)
	if n == nil {
		return 0
	}
	i, _ := strconv.Atoi(n.Value)
	return i
}

// sizeOf is about what DynamoDB bills an item by: names and values.
func sizeOf(item map[string]types.AttributeValue) int {
	size := 0
	for name, value := range item {
		encoded, _ := json.Marshal(value)
		size += len(name) + len(encoded)
	}
	return size
}

func largest(sizes map[int]int, from, to int) int {
	most := 0
	for turn, size := range sizes {
		if turn >= from && turn <= to {
			most = max(most, size)
		}
	}
	return most
}

// turnTimes returns how long each turn took, by the times at which they were
// stored, oldest first. The last one is the model's answer and asks for nothing.
func turnTimes(t *testing.T, run string) []time.Duration {
	t.Helper()
	var at []time.Time
	for cursor := ""; ; {
		status, text := operator(t, "dev::ada", http.MethodGet, fmt.Sprintf("/v1/runs/%s?limit=50&cursor=%s", run, url.QueryEscape(cursor)), nil)
		var page struct {
			NextCursor string `json:"next_cursor"`
			Turns      []struct {
				At time.Time `json:"at"`
			} `json:"turns"`
		}
		if err := json.Unmarshal(text, &page); err != nil || status != http.StatusOK {
			t.Fatalf("%d, %v: %s", status, err, text)
		}
		for _, turn := range slices.Backward(page.Turns) {
			at = append(at, turn.At)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	slices.Reverse(at)
	took := make([]time.Duration, 0, len(at))
	for i := 1; i < len(at); i++ {
		took = append(took, at[i].Sub(at[i-1]))
	}
	return took
}

// usual is the lower quartile: a turn that got longer shows in it, a machine that
// was busy elsewhere for a while does not.
func usual(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/4]
}
