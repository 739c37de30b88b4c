// Package demo tells what happens to a payment when an answer is lost: each
// story is a real run on the local stack, with the fault that gives it its name.
// It drives the system through its public surfaces only and asks the billing
// service's own database how often money moved. Start with [Tell].
package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/onceward/onceward/localstack/stack"
)

// WaitScale shortens the state machine's waits, so that a story does not take
// its time only to be polite to a service that is not there.
const WaitScale = 0.1

// longest bounds one story.
const longest = time.Minute

// teller tells one story after the other.
type teller struct {
	client

	stack *stack.Stack // what the client is a client of
	exe   string       // the program that runs a stack of its own

	out io.Writer
	tag string // makes names new, since a name is an execution's identity
}

// story is a story to tell: it fills in what it saw, and returns an error if
// something did not hold.
type story struct {
	name string
	tell func(*teller, context.Context, *Story) error
}

func stories() []story {
	return []story{
		{"applied-before-timeout", (*teller).appliedBeforeTimeout},
		{"never-landed", (*teller).neverLanded},
		{"refused-before-sending", (*teller).refusedBeforeSending},
		{"killed-after-effect", (*teller).killedAfterEffect},
		{"double-payout", (*teller).doublePayout},
		{"told-unresolved", (*teller).toldUnresolved},
		{"two-drivers", (*teller).twoDrivers},
		{"compensated", (*teller).compensated},
		{"whole-stack-killed", (*teller).wholeStackKilled},
	}
}

// Tell tells every story on s, line by line to out, and closes with a table. exe
// is this program, which runs the stack that a story kills as a whole. The error
// is about telling; what did not hold is in the report.
func Tell(ctx context.Context, s *stack.Stack, exe string, out io.Writer) (Report, error) {
	t := &teller{client: newClient(s.Config(), s.About()), stack: s, exe: exe, out: out, tag: strings.ToLower(rand.Text()[:6])}
	var told []Story
	for _, one := range stories() {
		told = append(told, t.tell(ctx, one))
		if err := ctx.Err(); err != nil {
			return Report{}, fmt.Errorf("demo: interrupted in %s: %w", one.name, err)
		}
	}
	report := newReport(told)
	t.sayf("")
	if err := report.writeTable(out); err != nil {
		return Report{}, err
	}
	t.sayf("\n%d of %d stories held. Effects are counted in the billing service's own database. Double effects under Onceward: %d.",
		report.Summary.OK, report.Summary.Stories, report.Summary.DoubleEffects)
	return report, nil
}

func (t *teller) tell(ctx context.Context, one story) Story {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	s := Story{Name: one.name, RunID: one.name + "-" + t.tag}
	t.sayf("\n%s", one.name)
	if err := one.tell(t, ctx, &s); err != nil {
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return s // somebody stopped the demo: that says nothing of the story
		}
		s.Why = err.Error()
		t.sayf("  this did not hold: %v", err)
		return s
	}
	s.OK = true
	return s
}

func (t *teller) sayf(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

// run starts a run with one call of issue_credit.
func (t *teller) run(ctx context.Context, s *Story, account string) (executionARN string, err error) {
	return t.runUnder(ctx, s, account, "")
}

func (t *teller) runUnder(ctx context.Context, s *Story, account, policy string) (executionARN string, err error) {
	t.sayf("  an agent's run %s calls issue_credit: $25.00 to %s", s.RunID, account)
	return t.start(ctx, t.machine, s.RunID, credit(s, account, policy))
}

func credit(s *Story, account, policy string) string {
	return script(s.RunID, policy, "issue_credit", map[string]any{"account_id": account, "amount_cents": 2500})
}

// finish waits for the run's end and fills in what everybody says of it.
func (t *teller) finish(ctx context.Context, s *Story, executionARN, account string) error {
	status, output, err := t.wait(ctx, executionARN)
	if err != nil {
		return err
	}
	s.RunStatus = status
	var end struct {
		Heard []struct {
			Says string `json:"says"`
		} `json:"heard"`
	}
	if err := json.Unmarshal([]byte(output), &end); err != nil {
		return fmt.Errorf("the run ended %s without an answer: %w", status, err)
	}
	for _, heard := range end.Heard {
		s.ModelHeard = append(s.ModelHeard, heard.Says)
		t.sayf("  the model hears: %q", heard.Says)
	}
	shown, err := t.show(ctx, s.key())
	if err != nil {
		return err
	}
	s.CallStatus, s.SettledBy, s.Attempts = shown.Status, shown.SettledBy.Kind, shown.Attempt
	effects, err := t.billing.AccountEffects(ctx, account)
	if err != nil {
		return err
	}
	s.Effects = effects.Credits
	t.sayf("  run %s, call %s, settled by %s; the billing service counts %s", s.RunStatus, s.CallStatus, s.settler(), counted(s.Effects, "credit"))
	return nil
}

func (s *Story) key() string { return s.RunID + ":call_1" }

// want is what must have come out of a story.
type want struct {
	runStatus, callStatus, settledBy string
	effects, attempts                int
	heard                            string // a part of what the model heard
}

func (s *Story) holds(w want) error {
	var errs []error
	differ := func(what string, got, want any) {
		if got != want {
			errs = append(errs, fmt.Errorf("%s is %v, want %v", what, got, want))
		}
	}
	differ("run", s.RunStatus, w.runStatus)
	differ("call", s.CallStatus, w.callStatus)
	differ("settled by", s.SettledBy, w.settledBy)
	differ("effects", s.Effects, w.effects)
	differ("attempts", s.Attempts, w.attempts)
	if !strings.Contains(strings.Join(s.ModelHeard, "\n"), w.heard) {
		errs = append(errs, fmt.Errorf("the model heard %q, want %q in it", s.ModelHeard, w.heard))
	}
	return errors.Join(errs...)
}
