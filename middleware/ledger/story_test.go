package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// A story is a text file of commands on one call and what became of it. Times
// are whole seconds after the story began; an executor's deadline is 60 s after
// its start and the call is quiet 60 s later, unless the command says otherwise.
type story struct {
	t       *testing.T
	current Record
	kept    map[string]Record
	writes  int
}

var storyBegan = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

var storyKey = Key{RunID: "run-7Q", CallID: "toolu_01"}

func newStory(t *testing.T) *story {
	t.Helper()
	return &story{t: t, kept: map[string]Record{}}
}

// run carries one command out and returns what stands afterwards.
func (s *story) run(d *datadriven.TestData) string {
	if d.Cmd == "new" {
		*s = *newStory(s.t)
		return "none\n"
	}
	if d.Cmd == "keep" {
		s.kept[d.CmdArgs[0].Key] = s.current
		return "kept\n"
	}
	base := s.current
	if name := word(d, "from"); name != "" {
		base = s.kept[name]
	}
	s.writes++
	stamp := Stamp{At: when(d, "at"), WriteID: fmt.Sprintf("w%d", s.writes)}
	move, err := s.move(base, stamp, d)
	if err == nil {
		s.current, err = move.On(s.current)
	}
	var out strings.Builder
	if err != nil {
		fmt.Fprintf(&out, "%v\n", err)
	}
	if !errors.Is(err, ErrNotAllowed) && !errors.Is(err, ErrInvalid) {
		fmt.Fprintln(&out, s.describe(stamp.At))
	}
	return out.String()
}

func (s *story) describe(at time.Time) string {
	r := s.current
	words := []string{r.State().String(), fmt.Sprintf("v%d", r.Version), "effect " + r.Effect().String(), "next " + string(r.Next(at, false, Pause))}
	if r.Rev > 0 {
		words = append(words, fmt.Sprintf("rev %d", r.Rev))
	}
	if r.Attempt.Number > 0 {
		words = append(words, fmt.Sprintf("attempt %d", r.Attempt.Number))
	}
	if r.State().Unsettled() {
		words = append(words, fmt.Sprintf("listed since %ds", int(r.WaitsSince.Sub(storyBegan).Seconds())))
	}
	if r.NeedsSomebody(at) {
		words = append(words, "needs somebody")
	}
	return strings.Join(words, " | ")
}

func (s *story) move(r Record, stamp Stamp, d *datadriven.TestData) (Move, error) {
	call := Call{Key: storyKey, Tool: "issue_credit", Class: "external", Turn: 1, Fingerprint: "f", KeyWindow: time.Duration(number(d, "window", 0)) * time.Second}
	decision := Decision{ID: "d-" + stamp.WriteID, Actor: "ada", Reason: "looked", Version: int64(number(d, "version", int(r.Version)))}
	what := Settlement{Effect: effect(word(d, "effect")), Retryable: flag(d, "retryable"), ExternalID: word(d, "external")}
	switch d.Cmd {
	case "start":
		deadline := stamp.At.Add(time.Minute)
		return r.Start(stamp, call, Executor{Token: AttemptToken(word(d, "token")), Attempt: number(d, "attempt", 1), Deadline: deadline, QuietAfter: deadline.Add(time.Minute)})
	case "ask-approval":
		return r.AskApproval(stamp, call, time.Duration(number(d, "for", 3600))*time.Second, 1)
	case "close":
		return r.Close(stamp, storyKey, Settler{Kind: ByPlanner})
	case "follow":
		return r.Follow(stamp, call, Key{RunID: "run-7Q", CallID: "other"})
	case "journal":
		return r.Journal(stamp, call, what)
	case "settle":
		return r.Settle(stamp, AttemptToken(word(d, "token")), what)
	case "orphan":
		return r.Orphan(stamp)
	case "expire":
		return r.Expire(stamp)
	case "new-policy":
		return r.NewPolicy(stamp, 2)
	case "look":
		return r.Look(stamp, when(d, "began"), flag(d, "authoritative"), what)
	case "approve":
		return r.Approve(stamp, decision)
	case "deny":
		return r.Deny(stamp, decision)
	case "resolve":
		return r.Resolve(stamp, decision, what)
	case "withdraw":
		return r.Withdraw(stamp, decision)
	case "acknowledge":
		return r.Acknowledge(stamp, decision)
	case "ask-undo":
		return r.AskUndo(stamp, decision, UndoAsk{KnowsUnknown: flag(d, "known-unknown"), Stands: flag(d, "undo-stands")})
	case "close-undo":
		return r.CloseUndo(stamp, number(d, "n", 1), what.Effect)
	case "acknowledge-undo":
		return r.AcknowledgeUndo(stamp, decision, number(d, "n", 1), flag(d, "contradicted"))
	case "note":
		return r.Note(stamp, Entry{Kind: Complete, By: string(ByExecutor), Reason: "late"})
	}
	s.t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return Move{}, nil
}

func word(d *datadriven.TestData, name string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == name && len(arg.Vals) == 1 {
			return arg.Vals[0]
		}
	}
	return ""
}

func flag(d *datadriven.TestData, name string) bool { return d.HasArg(name) }

func number(d *datadriven.TestData, name string, otherwise int) int {
	n := otherwise
	if text := word(d, name); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			panic(fmt.Sprintf("%s: %s: %v", d.Pos, name, err))
		}
	}
	return n
}

func when(d *datadriven.TestData, name string) time.Time {
	return storyBegan.Add(time.Duration(number(d, name, 0)) * time.Second)
}

func effect(word string) Effect {
	for _, e := range []Effect{NoEffect, Happened, Undone} {
		if e.String() == word {
			return e
		}
	}
	return Unknown
}

// Proves: R22, R24, R25, R26, R27, R28, R33, R34, R35, R109, R110
func TestStoriesOfOneCallEndAsWritten(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		t.Helper()
		s := newStory(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			return s.run(d)
		})
	})
}
