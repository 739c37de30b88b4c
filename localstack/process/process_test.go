package process_test

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward/localstack/process"
)

func start(t *testing.T, role string) *process.Process {
	t.Helper()
	p, said, err := process.StartReady(t.Context(), child(role), "ready as ")
	if err != nil || said != role {
		t.Fatalf("%q, %v", said, err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestChildIsAskedToEndAndKilledIfItDoesNot(t *testing.T) {
	t.Parallel()
	polite := start(t, "polite")
	exit, ok := errors.AsType[*exec.ExitError](polite.Stop(t.Context()))
	if !ok || exit.String() != "signal: terminated" {
		t.Errorf("the polite one ended by %v", exit)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stubborn := start(t, "stubborn")
	if err := stubborn.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stubborn one: %v", err)
	}
	if err := stubborn.Err(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the stubborn one ended by %v", err)
	}
	select {
	case <-stubborn.Exited():
	default:
		t.Error("it has ended, yet Exited is open")
	}
	stubborn.Kill() // of one that is gone: nothing happens
}

func TestStartSaysWhyThereIsNoChild(t *testing.T) {
	t.Parallel()
	if _, _, err := process.StartReady(t.Context(), child("mute"), "ready"); !errors.Is(err, process.ErrNotReady) {
		t.Errorf("ended without a word: %v", err)
	}
	if _, _, err := process.StartReady(t.Context(), child("polite"), "up and running "); !errors.Is(err, process.ErrNotReady) {
		t.Errorf("said something else: %v", err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("out of patience"))
	defer cancel()
	if _, _, err := process.StartReady(ctx, child("silent"), "ready"); err == nil || err.Error() != "process: waiting for the ready line: out of patience" {
		t.Errorf("said nothing: %v", err)
	}
	missing := exec.Command(filepath.Join(t.TempDir(), "absent"))
	if _, err := process.Start(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
}

// parent starts a child that has a child, and returns both.
func parent(t *testing.T) (p *process.Process, grandchild int) {
	t.Helper()
	p, said, err := process.StartReady(t.Context(), child("parent"), "ready ")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if grandchild, err = strconv.Atoi(said); err != nil {
		t.Fatal(err)
	}
	return p, grandchild
}

func family(t *testing.T, p *process.Process) []process.Member {
	t.Helper()
	members, err := process.Family(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func TestFamilyIsKnownAndDiesAsAWhole(t *testing.T) {
	t.Parallel()
	p, grandchild := parent(t)
	members := family(t, p)
	if len(members) != 2 || members[0].PID != p.PID() || members[1].PID != grandchild {
		t.Errorf("%+v, want %d and %d", members, p.PID(), grandchild)
	}
	alive, err := process.Alive(members)
	if err != nil || !slices.Equal(alive, members) {
		t.Errorf("alive %v, %v", alive, err)
	}
	if err := p.KillFamily(10 * time.Second); err != nil {
		t.Error(err)
	}
	if alive, err := process.Alive(members); err != nil || len(alive) != 0 {
		t.Errorf("alive after the kill: %v, %v", alive, err)
	}
	if err := p.KillFamily(10 * time.Second); err != nil {
		t.Errorf("killed again: %v", err)
	}
}

func TestChildDiesWithAKilledParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills children with their parent")
	}
	p, _ := parent(t)
	members := family(t, p)
	p.Kill()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		alive, err := process.Alive(members)
		if err != nil {
			t.Fatal(err)
		}
		if len(alive) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-time.After(10 * time.Second):
			t.Fatalf("%v live on", alive)
		}
	}
}

func TestPeakMemoryIsKnownOfTheLivingAndTheDead(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	p := start(t, "polite")
	if mb := p.PeakMB(); mb < 1 || mb > 1000 {
		t.Errorf("%d MB while it lives", mb)
	}
	p.Kill()
	if mb := p.PeakMB(); mb < 1 || mb > 1000 {
		t.Errorf("%d MB after its death", mb)
	}
}
