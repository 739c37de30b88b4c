package once_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/onceward/onceward/middleware/once"
)

// BenchmarkGuard compares a guarded call on a ledger in memory with its bare
// handler. The requests beside the time are those to the ledger.
func BenchmarkGuard(b *testing.B) {
	ctx := context.Background()
	work := &bank{}
	b.Run("bare handler", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := work.run(ctx, five); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fresh call", func(b *testing.B) {
		store := newStore(b)
		bound := bind(b, newGuard(b, store), work.tool())
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			if out := bound.Do(ctx, once.Request{RunID: "r1", CallID: "c" + strconv.Itoa(n)}, five); out.Status != once.Completed || out.Replayed {
				b.Fatal(out.Report)
			}
		}
		b.ReportMetric(float64(len(store.Log()))/float64(n), "requests/op")
	})
	b.Run("replay", func(b *testing.B) {
		store := newStore(b)
		bound := bind(b, newGuard(b, store), work.tool())
		bound.Do(ctx, call1, five)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			if out := bound.Do(ctx, call1, five); !out.Replayed {
				b.Fatal(out.Report)
			}
		}
		b.ReportMetric(float64(len(store.Log())-2)/float64(n), "requests/op")
	})
	b.Run("fresh call by envelope", func(b *testing.B) {
		store := newStore(b)
		h := handlerOf(b, newGuard(b, store), work.tool())
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			payload := fmt.Appendf(nil, `{"onceward":1,"mode":"invoke","run":{"id":"r1"},"call":{"id":"c%d","tool":"issue_credit","arguments":{"account":"A1","cents":5}},"reply":"brief"}`, n)
			if _, err := h.Invoke(ctx, payload); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(store.Log()))/float64(n), "requests/op")
	})
	b.Run("direct read", func(b *testing.B) {
		store := newStore(b)
		bound := bind(b, newGuard(b, store), reader(work.run))
		b.ReportAllocs()
		for b.Loop() {
			if out := bound.Do(ctx, call1, five); out.Status != once.Completed {
				b.Fatal(out.Report)
			}
		}
		b.ReportMetric(float64(len(store.Log())), "requests")
	})
}
