package operator

import (
	"context"
	"log/slog"

	"github.com/onceward/onceward/middleware/ledger"
)

// note leaves a remark on the call, where people look. It is evidence only and
// moves nothing, so a failure stops nothing.
func (s *Service) note(ctx context.Context, r ledger.Record, by, remark string) {
	state := r.State().String()
	move, err := r.Note(s.stamp(), ledger.Entry{Kind: ledger.Note, By: by, Reason: remark, Before: state, After: state})
	if err == nil {
		// Stored now: the remark. If we stop before, it is lost and the status
		// stands.
		_, err = s.cfg.Store.Apply(ctx, move)
	}
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "note not stored", slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
	}
}
