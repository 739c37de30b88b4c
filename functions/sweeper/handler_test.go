package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/sweeper"
)

// canary is in an event's input, which nobody needs to see again.
const canary = "CANARY"

type oneSweep struct {
	report sweeper.Report
	err    error
	made   int
}

func (s *oneSweep) Sweep(context.Context) (sweeper.Report, error) {
	s.made++
	return s.report, s.err
}

// adoptions notes what it is asked to adopt.
type adoptions struct {
	asked []launch.Orphan
	err   error
}

func (a *adoptions) Adopt(_ context.Context, o launch.Orphan) (bool, error) {
	a.asked = append(a.asked, o)
	return a.err == nil, a.err
}

func stored(t *testing.T, file string) json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestExecutionThatEndedIsOfferedForAdoptionUnlessItsInputWasRefused(t *testing.T) {
	t.Parallel()
	ended := string(stored(t, "execution-failed.json"))
	want := launch.Orphan{
		Machine: "arn:aws:states:eu-central-1:000000000000:stateMachine:onceward-dev-agent-run", Execution: "run-7Q-e3b0c442-g1",
		Input: json.RawMessage(`{"run_id":"run-7Q","secret":"CANARY"}`), StartedAt: time.UnixMilli(1795953600000).UTC(),
	}
	for name, tt := range map[string]struct {
		event string
		err   error
		want  []launch.Orphan
	}{
		"ended badly":                          {ended, nil, []launch.Orphan{want}},
		"ended badly, and can't be looked at":  {ended, errors.New("down"), []launch.Orphan{want}},
		"ended by the planner, for bad input":  {strings.Replace(ended, `"output": null`, `"error": "Onceward.BadInput"`, 1), nil, nil},
		"whose input is too long for an event": {strings.Replace(ended, `"input": "{`, `"other": "{`, 1), nil, nil},
		"the schedule's":                       {string(stored(t, "event.json")), nil, nil},
	} {
		s, a := &oneSweep{}, &adoptions{err: tt.err}
		if _, err := (handler{sweeper: s, drivers: a, log: slog.New(slog.DiscardHandler)}).Handle(t.Context(), json.RawMessage(tt.event)); err != nil || s.made != 1 {
			t.Errorf("%s: %d sweeps, %v", name, s.made, err)
		}
		if diff := cmp.Diff(tt.want, a.asked); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEveryEventBringsOneSweepAndItsReport(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]json.RawMessage{
		"the schedule's":                stored(t, "event.json"),
		"of an execution that ended":    stored(t, "execution-failed.json"),
		"made by hand":                  json.RawMessage(` {} `),
		"of a shape that nobody knows":  json.RawMessage(`{"detail": "text", "detail-type": 7}`),
		"with a status that is no text": json.RawMessage(`{"detail": {"status": 7}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &oneSweep{report: sweeper.Report{Complete: true}}
			report, err := handler{sweeper: s, drivers: &adoptions{}, log: slog.New(slog.DiscardHandler)}.Handle(t.Context(), payload)
			if err != nil || s.made != 1 || !report.Complete {
				t.Errorf("%d sweeps, %+v, %v", s.made, report, err)
			}
		})
	}
}

func TestWhatIsNoEventIsRefusedBeforeAnything(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{``, ` `, `null`, `[]`, `"sweep"`, `7`, `{`} {
		s := &oneSweep{}
		if _, err := (handler{sweeper: s, drivers: &adoptions{}, log: slog.New(slog.DiscardHandler)}).Handle(t.Context(), json.RawMessage(payload)); !errors.Is(err, errEvent) || s.made != 0 {
			t.Errorf("%q: %d sweeps, %v", payload, s.made, err)
		}
	}
}

func TestLogSaysWhichExecutionEndedAndNothingOfItsInput(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := handler{sweeper: &oneSweep{}, drivers: &adoptions{}, log: slog.New(slog.NewJSONHandler(&log, nil))}
	for _, file := range []string{"event.json", "execution-failed.json"} {
		if _, err := h.Handle(t.Context(), stored(t, file)); err != nil {
			t.Fatal(err)
		}
	}
	text := log.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, `"execution":"run-7Q-e3b0c442-g1","status":"TIMED_OUT"`) || strings.Contains(text, canary) {
		t.Errorf("the log:\n%s", text)
	}
}

func TestSweepThatFailedIsAFailedInvocation(t *testing.T) {
	t.Parallel()
	down := errors.New("table is gone")
	_, err := handler{sweeper: &oneSweep{err: down}, drivers: &adoptions{}, log: slog.New(slog.DiscardHandler)}.Handle(t.Context(), stored(t, "event.json"))
	if !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
}

// What machines read of a report keeps its names.
func TestReportIsTheDocumentedJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	s := &oneSweep{report: sweeper.Report{
		StartedAt: at, Seconds: 1.5, Complete: true,
		Calls:         sweeper.CallCounts{Listed: 7, InFlight: 2, Tended: 5, Orphaned: 1, LookedUp: 1, Rung: 2, Unreadable: 1, NeedSomebody: 3, OldestSeconds: 81},
		Runs:          sweeper.RunCounts{Listed: 40, Driven: 36, Tended: 4, Started: 1, WithoutDriver: 1, OldestSeconds: 60},
		WithoutDriver: []sweeper.Driverless{{Tenant: "acme", RunID: "run-7Q", Execution: "run-7Q-e3b0c442-g1", State: executions.TimedOut, Since: at}},
		Unreadable:    []sweeper.Unreadable{{Tenant: "acme", RunID: "run-7Q", CallID: "toolu_01"}},
	}}
	report, err := handler{sweeper: s, drivers: &adoptions{}, log: slog.New(slog.DiscardHandler)}.Handle(t.Context(), stored(t, "event.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(stored(t, "report.json"))), string(got)); diff != "" {
		t.Errorf("testdata/report.json (-want +got):\n%s", diff)
	}
}

// The page shows every field of a report, and no other.
func TestPageShowsTheWholeReport(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/howto/sweep.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	example, _, found := strings.Cut(rest, "\n```")
	if !found {
		t.Fatal("the page has no example")
	}
	var shown, whole any
	if err := json.Unmarshal([]byte(example), &shown); err != nil {
		t.Fatal(err)
	}
	var report sweeper.Report
	if err := json.Unmarshal([]byte(example), &report); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err == nil {
		err = json.Unmarshal(text, &whole)
	}
	if diff := cmp.Diff(whole, shown); err != nil || diff != "" {
		t.Errorf("%v; the page's example (-report +page):\n%s", err, diff)
	}
}
