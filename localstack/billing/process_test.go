package billing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/billing"
)

func startChild(t *testing.T, file string) (*billing.Process, *billing.Client) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := billing.Command{Exe: exe, Env: []string{envDataFile + "=" + file}, Stderr: io.Discard}.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	c := billing.NewClient(p.URL(), nil)
	if _, err := c.SignIn(t.Context(), "tests", ""); err != nil {
		t.Fatal(err)
	}
	return p, c
}

func TestNothingAcknowledgedIsLostByAKill(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "billing.db")
	p, c := startChild(t, file)

	// Eight senders write until the kill stops them, so that it falls into the middle of commits.
	var mu sync.Mutex
	acknowledged := map[string]billing.Credit{}
	enough := make(chan struct{})
	var senders sync.WaitGroup
	for sender := range 8 {
		senders.Go(func() {
			for n := 0; ; n++ {
				key := fmt.Sprintf("run-%d:c%d", sender, n)
				credit, _, err := c.Credit(t.Context(), key, billing.CreditRequest{AccountID: "A1", AmountCents: 1})
				if err != nil {
					return
				}
				mu.Lock()
				acknowledged[key] = credit
				if len(acknowledged) == 40 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	p.Kill()
	senders.Wait()

	_, again := startChild(t, file)
	for key, want := range acknowledged {
		found, err := again.CreditsByKey(t.Context(), key)
		if diff := cmp.Diff([]billing.Credit{want}, found); err != nil || diff != "" {
			t.Fatalf("key %s after the kill: %v (-want +got):\n%s", key, err, diff)
		}
	}
	got, err := again.AccountEffects(t.Context(), "A1")
	if err != nil {
		t.Fatal(err)
	}
	// Each sender had at most one request without an answer when the kill came.
	if got.Credits < len(acknowledged) || got.Credits > len(acknowledged)+8 || got.Credits > got.Sends {
		t.Errorf("%d credits of %d sends after %d acknowledged", got.Credits, got.Sends, len(acknowledged))
	}
}

func TestLostAnswerSurvivesAKillAndItsKeyFindsIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "billing.db")
	p, c := startChild(t, file)
	dead := c
	checkSeen(t, c, "acct-lose-answer", "run-1:c1", seen{})
	p.Kill()
	_, c = startChild(t, file)
	credit, replayed, err := c.Credit(t.Context(), "run-1:c1", billing.CreditRequest{AccountID: "acct-lose-answer", AmountCents: 5})
	if err != nil || !replayed || credit.Key != "run-1:c1" {
		t.Errorf("same key after the kill: %+v, replayed %v, %v", credit, replayed, err)
	}
	wantEffects(t, c, "acct-lose-answer", 1, 2)
	if _, _, err := dead.Credit(t.Context(), "", billing.CreditRequest{AccountID: "A1", AmountCents: 5}); err == nil {
		t.Error("the killed process still answers")
	}
}

func TestStopEndsCleanlyAndFreesTheDataFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "billing.db")
	p, c := startChild(t, file)
	if _, _, err := c.Credit(t.Context(), "k", billing.CreditRequest{AccountID: "A1", AmountCents: 5}); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("stopping: %v", err)
	}
	select {
	case <-p.Exited():
	default:
		t.Error("stopped but not exited")
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
	_, c = startChild(t, file)
	wantEffects(t, c, "A1", 1, 1)
}

func TestStartSaysWhyThereIsNoService(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "no", "such", "folder", "billing.db")
	_, err = billing.Command{Exe: exe, Env: []string{envDataFile + "=" + missing}, Stderr: io.Discard}.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "without a ready line") {
		t.Errorf("unusable data file: %v", err)
	}
	if _, err = (billing.Command{Exe: filepath.Join(t.TempDir(), "absent")}).Start(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = billing.Command{Exe: exe, Env: []string{envDataFile + "=" + filepath.Join(t.TempDir(), "b.db")}, Stderr: io.Discard}.Start(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("ctx ended: %v", err)
	}
	if err == nil {
		t.Error("ctx had ended, yet a process was started")
	}
}
