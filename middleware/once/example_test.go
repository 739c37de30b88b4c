package once_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

type refundIn struct {
	OrderID string `json:"order_id"`
}

type refund struct {
	ID string `json:"refund_id"`
}

// exampleGuard is a guard on a ledger in memory; a Lambda uses dynamoledger.
func exampleGuard() *once.Guard {
	store, err := memledger.New()
	if err != nil {
		panic(err)
	}
	guard, err := once.New(store, nil)
	if err != nil {
		panic(err)
	}
	return guard
}

// A repeat is answered from the ledger; the tool does not run again.
func ExampleBind() {
	runs := 0
	tool, err := once.Bind(exampleGuard(), once.Tool[refundIn, refund]{
		Name:  "refund",
		Class: once.External,
		Run: func(_ context.Context, in refundIn) (refund, error) {
			runs++
			return refund{ID: "rf_" + in.OrderID}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := once.Request{RunID: "run-7Q", CallID: "toolu_01"}
	for range 2 {
		out := tool.Do(context.Background(), req, refundIn{OrderID: "o1"})
		r, err := out.Value()
		fmt.Println(r.ID, err, out.Key, "replayed:", out.Replayed)
	}
	fmt.Println("runs:", runs)
	// Output:
	// rf_o1 <nil> run-7Q:toolu_01 replayed: false
	// rf_o1 <nil> run-7Q:toolu_01 replayed: true
	// runs: 1
}

// Handler serves tools as a Lambda function: pass it to lambda.Start.
func ExampleGuard_Handler() {
	handler, err := exampleGuard().Handler(once.Tool[refundIn, refund]{
		Name:        "refund",
		Description: "Refund an order.",
		Class:       once.External,
		Run: func(_ context.Context, in refundIn) (refund, error) {
			return refund{ID: "rf_" + in.OrderID}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := handler.Invoke(context.Background(), []byte(`{"onceward": 1, "mode": "invoke",
		"run": {"id": "run-7Q"}, "call": {"id": "toolu_01", "tool": "refund", "arguments": {"order_id": "o1"}}}`))
	fmt.Println(string(answer), err)
	// Output:
	// {"onceward":1,"key":"run-7Q:toolu_01","tool":"refund","status":"completed","effect":"happened","replayed":false,"attempt":1,"result":{"refund_id":"rf_o1"},"model_says":"This call took effect. Result: {\"refund_id\":\"rf_o1\"}","error":{"code":"","message":""},"next":"done","retry_after_seconds":0} <nil>
}

// Say "rejected" only for a definite no. Everything unmarked is unknown and is
// never tried again by itself.
func ExampleRejected() {
	tool, err := once.Bind(exampleGuard(), once.Tool[int, refund]{
		Name:  "refund",
		Class: once.External,
		Run: func(_ context.Context, status int) (refund, error) {
			err := fmt.Errorf("receiver says %d", status)
			if status == http.StatusUnprocessableEntity {
				return refund{}, once.Rejected(err)
			}
			return refund{}, err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, status := range []int{422, 502} {
		req := once.Request{RunID: "run-7Q", CallID: fmt.Sprint("call_", i)}
		_, err := tool.Do(context.Background(), req, status).Value()
		switch {
		case errors.Is(err, once.Failed):
			fmt.Println(status, "certainly not:", err)
		case errors.Is(err, once.Indeterminate):
			fmt.Println(status, "nobody knows; do not repeat it under another key")
		}
	}
	// Output:
	// 422 certainly not: once: refund: run-7Q:call_0: failed: rejected: receiver says 422
	// 502 nobody knows; do not repeat it under another key
}

// Wrap keeps the type of a handler that existed before.
func ExampleWrap() {
	type job struct{ Execution, Step, Order string }
	guarded, err := once.Wrap(exampleGuard(),
		once.Tool[job, refund]{
			Name: "refund", Class: once.External,
			Run: func(ctx context.Context, in job) (refund, error) {
				return refund{ID: "rf_" + in.Order + " under " + once.CallFrom(ctx).Key.String()}, nil
			},
		},
		func(_ context.Context, in job) (once.Request, error) {
			return once.Request{RunID: in.Execution, CallID: in.Step}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := guarded(context.Background(), job{Execution: "e1", Step: "pay", Order: "o1"})
	fmt.Println(r.ID, err)
	// Output: rf_o1 under e1:pay <nil>
}

// Transport sends the call's key to the receiver; the tool need not know it.
func ExampleTransport() {
	pay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Idempotency-Key"))
	}))
	defer pay.Close()
	client := &http.Client{Transport: &once.Transport{}}
	tool, err := once.Bind(exampleGuard(), once.Tool[refundIn, string]{
		Name:       "refund",
		Class:      once.External,
		Downstream: once.Downstream{KeyWindow: 24 * time.Hour},
		Run: func(ctx context.Context, in refundIn) (string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, pay.URL, strings.NewReader(in.OrderID))
			if err != nil {
				return "", once.NotAttempted(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				return "", err // unmarked, so unknown: it may have arrived
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			return string(body), err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tool.Do(context.Background(), once.Request{RunID: "run-7Q", CallID: "toolu_01"}, refundIn{OrderID: "o1"}).Value())
	// Output: run-7Q:toolu_01 <nil>
}

// A look-up turns an unknown outcome into a known one: a repeat asks it first
// and goes on with the real result.
func ExampleTool_reconcile() {
	var landed []refund
	tool, err := once.Bind(exampleGuard(), once.Tool[refundIn, refund]{
		Name:  "refund",
		Class: once.External,
		Run: func(context.Context, refundIn) (refund, error) {
			landed = append(landed, refund{ID: "rf_1"})
			return refund{}, errors.New("connection reset")
		},
		Reconcile: func(context.Context, ledger.Record, refundIn) (refund, bool, error) {
			if len(landed) == 0 {
				return refund{}, false, nil
			}
			return landed[0], true, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := once.Request{RunID: "run-7Q", CallID: "toolu_01"}
	for range 2 {
		out := tool.Do(context.Background(), req, refundIn{OrderID: "o1"})
		r, _ := out.Value()
		fmt.Printf("%s, next %s, %q, effects %d\n", out.Status, out.Next, r.ID, len(landed))
	}
	// Output:
	// indeterminate, next look, "", effects 1
	// completed, next done, "rf_1", effects 1
}

// An undo is a call of its own, under its own key: a person asks for it on the
// call's record, then it runs once. Here nobody has asked at first.
func ExampleTool_compensate() {
	store, err := memledger.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	guard, err := once.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	voids, refunds := 0, map[string]refund{} // as the receiver keeps them, by key
	tool, err := once.Bind(guard, once.Tool[refundIn, refund]{
		Name:       "refund",
		Class:      once.External,
		ExternalID: func(r refund) string { return r.ID },
		Run: func(ctx context.Context, in refundIn) (refund, error) {
			made := refund{ID: "rf_" + in.OrderID}
			refunds[once.CallFrom(ctx).Key.String()] = made
			return made, nil
		},
		CompensateByKey: true,
		Compensate: func(ctx context.Context, rec ledger.Record, _ refundIn) error {
			made, found := refunds[rec.Key.String()] // the id on record may be a person's word
			if !found || rec.Outcome.ExternalID != "" && rec.Outcome.ExternalID != made.ID {
				return once.Rejected(errors.New("nothing stands under this call's key; undo it by hand"))
			}
			voids++
			fmt.Println("voids", made.ID, "under", once.CallFrom(ctx).Key)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	call := once.Request{RunID: "run-7Q", CallID: "toolu_01"}
	undo := call
	undo.CallID = call.Key().Undo(1).CallID
	tool.Do(ctx, call, refundIn{OrderID: "o1"})
	fmt.Println(tool.Compensate(ctx, undo, refundIn{}).Code)

	// The operator's API does this when a person posts to /compensate.
	rec, err := store.Load(ctx, call.Key())
	if err != nil {
		fmt.Println(err)
		return
	}
	ask, err := rec.AskUndo(ledger.Stamp{At: time.Now(), WriteID: "w1"}, ledger.Decision{ID: "d1", Actor: "ann", Reason: "refunded the wrong order", Version: rec.Version}, ledger.UndoAsk{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := store.Apply(ctx, ask); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		r := tool.Compensate(ctx, undo, refundIn{})
		fmt.Println(r.Key, r.Status, "replayed:", r.Replayed)
	}
	fmt.Println("voids:", voids)
	// Output:
	// undo_not_asked
	// voids rf_o1 under run-7Q:toolu_01~undo1
	// run-7Q:toolu_01~undo1 completed replayed: false
	// run-7Q:toolu_01~undo1 completed replayed: true
	// voids: 1
}
