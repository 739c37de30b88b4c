package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/onceward/onceward/middleware/once"
)

// Not parallel: it listens to everything that the process prints.
//
// Proves: R17
func TestSecretsAppearInNoAnswerNoRecordAndNoOutput(t *testing.T) {
	const argument, failure, permission = "canary-argument", "canary-failure", "canary-permission"
	printed := capture(t, func() {
		for name, run := range map[string]func(context.Context, creditIn) (credit, error){
			"an error": func(context.Context, creditIn) (credit, error) { return credit{}, errors.New(failure) },
			"a panic":  func(context.Context, creditIn) (credit, error) { panic(failure) },
			"around a mark": func(context.Context, creditIn) (credit, error) {
				return credit{}, fmt.Errorf(failure+": %w", once.Rejected(errors.New("no")))
			},
			"landed and wrong": func(context.Context, creditIn) (credit, error) {
				return credit{}, fmt.Errorf(failure+": %w", once.Landed("cr", errors.New("no")))
			},
			"a result": func(context.Context, creditIn) (credit, error) { return credit{ID: "cr"}, nil },
		} {
			t.Run(name, func(t *testing.T) {
				store, b := newStore(t), &bank{}
				h := handlerOf(t, newGuard(t, store), b.tool(func(t *once.Tool[creditIn, credit]) { t.Run = run }))
				for _, payload := range []string{
					envelope("invoke", "A1", argument, `"reply"`, `"principal":{"subject":"u","permissions":["`+permission+`"]},"reply"`),
					envelope("invoke", "A1", argument),
					envelope("invoke", "A1", argument+"2"),
					envelope("reconcile", "A1", argument),
					envelope("close", "A1", argument),
					envelope("invoke", `"A1"`, `["`+argument+`"]`),
					envelope("invoke", `"A1"`, `"`+argument+`"`, `:5`, `:"`+argument+`"`),
					envelope("invoke", `:5`, `:12345678901234567890`),
				} {
					out, err := h.Invoke(t.Context(), []byte(payload))
					if err != nil {
						t.Fatal(err)
					}
					free(t, "answer", string(out), argument, failure, permission, "12345678901234567890")
				}
				rec, err := json.Marshal(record(t, store, call1.Key()))
				if err != nil {
					t.Fatal(err)
				}
				free(t, "record", string(rec), argument, failure, permission)
			})
		}
	})
	free(t, "output", printed, argument, failure, permission)
}

func free(t *testing.T, where, text string, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%s holds %s: %s", where, s, text)
		}
	}
}

// capture returns what f makes the process print or log.
func capture(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, logger, handler := os.Stdout, os.Stderr, log.Writer(), slog.Default()
	os.Stdout, os.Stderr = w, w
	log.SetOutput(w)
	slog.SetDefault(slog.New(slog.NewJSONHandler(w, nil)))
	printed := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		printed <- string(all)
	}()
	f()
	os.Stdout, os.Stderr = stdout, stderr
	slog.SetDefault(handler)
	log.SetOutput(logger)
	_ = w.Close()
	all := <-printed
	_ = r.Close()
	return all
}
