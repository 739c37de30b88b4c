package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/onceward/onceward/middleware/once"
)

// logged writes one line per invocation: the run, a hash of the key and how it
// ended, first effects told from replays, and why the ledger failed if it did. The
// handler's own error stays out: it may repeat what was sent.
func logged(log *slog.Logger) once.Observer {
	return func(ctx context.Context, call once.Call) (context.Context, func(once.Report, error)) {
		began := time.Now()
		return ctx, func(r once.Report, cause error) {
			level := slog.LevelInfo
			if r.Status == once.Indeterminate {
				level = slog.LevelWarn
			}
			attrs := []slog.Attr{
				slog.String("tool", call.Tool), slog.String("class", string(call.Class)), slog.String("run", call.RunID), slog.String("key_hash", call.Key.Short()),
				slog.String("status", string(r.Status)), slog.String("effect", r.Effect.String()), slog.String("code", r.Code), slog.String("next", string(r.Next)),
				slog.Int("attempt", r.Attempt), slog.Bool("replayed", r.Replayed), slog.Bool("joined", r.Joined), slog.Duration("took", time.Since(began)),
			}
			if lc, ok := lambdacontext.FromContext(ctx); ok {
				attrs = append(attrs, slog.String("request_id", lc.AwsRequestID))
			}
			log.LogAttrs(ctx, level, "tool call", append(attrs, faultOf(r.Code, cause)...)...)
		}
	}
}
