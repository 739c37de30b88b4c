package stepfunctions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/stepfunctions/journal"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

var errDead = errors.New("dead")

// death is what a write to the journal meets when the process dies at it.
type death int

const (
	nothingWritten death = iota
	partWritten
	wholeWritten
)

// dyingDisk lets a Runner die at one of its writes: from then on it can't store
// anything, so nothing that it does can be seen by the next one.
type dyingDisk struct {
	at     int64 // which write; 0 means never
	how    death
	writes atomic.Int64
	dead   chan struct{}
	last   []byte // what the fatal write held
}

func newDyingDisk(at int, how death) *dyingDisk {
	return &dyingDisk{at: int64(at), how: how, dead: make(chan struct{})}
}

func (d *dyingDisk) attach(r *Runner) {
	r.store.create, r.store.append = d.wrap(journal.Create), d.wrap(journal.Append)
}

func (d *dyingDisk) wrap(write func(string, []byte) error) func(string, []byte) error {
	return func(path string, payload []byte) error {
		n := d.writes.Add(1)
		switch {
		case d.at == 0 || n < d.at:
			return write(path, payload)
		case n > d.at:
			return errDead
		}
		d.last = payload
		defer close(d.dead)
		if d.how == nothingWritten {
			return errDead
		}
		if err := write(path, payload); err != nil {
			return err
		}
		if d.how == partWritten {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if err := os.Truncate(path, info.Size()-int64(len(payload)/2)-1); err != nil {
				return err
			}
		}
		return errDead
	}
}

func (d *dyingDisk) hasDied() bool {
	select {
	case <-d.dead:
		return true
	default:
		return false
	}
}

// persistentClient is somebody who wants one execution to run and repeats what
// was not answered.
type persistentClient struct {
	definition, input string
	tokens            func() []string // to answer, as far as they are known
	redrives          bool            // a failed execution until it succeeds
}

// live drives a Runner until the execution has ended (true) or the disk died.
func (c persistentClient) live(t *testing.T, r *Runner, d *dyingDisk) bool {
	t.Helper()
	machine, err := r.CreateStateMachine(CreateStateMachineInput{Name: "m", Definition: c.definition, RoleARN: testRole})
	if err != nil {
		return false
	}
	begun, err := r.StartExecution(StartExecutionInput{StateMachineARN: machine.StateMachineARN, Name: new("e"), Input: &c.input})
	known, _ := errors.AsType[*APIError](err)
	switch {
	case known != nil && known.Type == codeExecutionAlreadyExists:
		begun.ExecutionARN = "arn:aws:states:us-east-1:000000000000:execution:m:e"
	case err != nil:
		return false
	}
	for range 10_000 {
		synctest.Wait()
		if d.hasDied() {
			return false
		}
		switch out := describe(t, r, begun.ExecutionARN); {
		case out.Status == Failed && c.redrives:
			_, _ = r.RedriveExecution(RedriveExecutionInput{ExecutionARN: begun.ExecutionARN}) // again if it was not stored
		case out.Status != Running:
			return true
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, token := range c.tokens() {
			_, _ = r.SendTaskSuccess(success(token, `{}`)) // one that is used already is refused
		}
	}
	t.Fatal("the execution does not end")
	return false
}

type crashScenario struct {
	definition string // default: agent-run
	redrives   bool
	short      bool
	agent      func() *agent
	outcomes   string
	output     string
	spare      int // how many calls can be in progress at once
}

var crashScenarios = map[string]crashScenario{
	"done": {
		short:    true,
		agent:    func() *agent { return newAgent(callTools("c1"), succeed) },
		outcomes: `[{"code":"","id":"c1","message":"","status":"completed","turn":1}]`, output: succeed, spare: 1,
	},
	"parked": {
		agent: func() *agent {
			a := newAgent(callTools("c1"), succeed)
			parked := false
			a.tool = func(int, string) (Invoked, error) {
				if parked {
					return answerJSON(says("done", "completed"))
				}
				return answerJSON(says("park", "indeterminate"))
			}
			a.desk = func(payload map[string]any) (Invoked, error) {
				if payload["mode"] == "park" {
					parked = true
				}
				return answerJSON(says("again", "in_progress"))
			}
			return a
		},
		outcomes: `[{"code":"","id":"c1","message":"","status":"completed","turn":1}]`, output: succeed, spare: 1,
	},
	"several at once": {
		agent: func() *agent {
			a := newAgent(callTools("c1", "c2", "c3"), callTools("c4"), succeed)
			asked := map[string]bool{}
			a.toolFor = func(id string) (Invoked, error) {
				if first := !asked[id]; first && id != "c2" {
					asked[id] = true
					return answerJSON(says("again", "in_progress"))
				}
				return answerJSON(says("done", "completed"))
			}
			return a
		},
		outcomes: `[{"code":"","id":"c4","message":"","status":"completed","turn":2}]`, output: succeed, spare: 2,
	},
	"iterations that fail or are aborted, redriven": {
		definition: mapOver(`"MaxConcurrency":2,`, ""), redrives: true, short: true,
		agent: func() *agent {
			a := newAgent("")
			failed := false
			a.functions["f"] = func(ctx context.Context, payload map[string]any) (Invoked, error) {
				index := jsonvalue.MustEncode(payload["i"])
				seconds, _ := strconv.Atoi(index)
				select {
				case <-time.After(time.Duration(5-seconds) * time.Second):
				case <-ctx.Done():
					return Invoked{}, ctx.Err()
				}
				a.mu.Lock()
				defer a.mu.Unlock()
				if index == "1" && !failed {
					failed = true
					return lambdaError("Boom", "x")
				}
				return answerJSON(index)
			}
			return a
		},
		outcomes: `[]`, output: `[{"p":0},{"p":1},{"p":2},{"p":3}]`, spare: 2,
	},
	"planner fails": {
		short:    true,
		agent:    func() *agent { return newAgent(`{"next":"fail","failure":{"error":"Agent.GaveUp","cause":"tired"}}`) },
		outcomes: `[]`, spare: 1,
	},
}

// stride keeps the long scenarios short: of their writes, each second one is
// cut in part and each other one is stored as the last.
func (s crashScenario) stride() int {
	if s.short {
		return 1
	}
	return 2
}

func (s crashScenario) first(how death) int {
	if how == wholeWritten {
		return s.stride()
	}
	return 1
}

func TestExecutionGoesOnFromWhereverTheRunnerDied(t *testing.T) {
	t.Parallel()
	for name, scenario := range crashScenarios {
		for how, write := range map[death]string{nothingWritten: "nothing written", partWritten: "part written", wholeWritten: "whole written"} {
			if how == nothingWritten && name != "done" {
				continue // a part is cut off when it is read, which comes to the same
			}
			t.Run(name+", "+write, func(t *testing.T) {
				t.Parallel()
				calm := dieAt(t, scenario, 0, how)
				for n := scenario.first(how); ; n += scenario.stride() {
					got := dieAt(t, scenario, n, how)
					if !got.died {
						break
					}
					if got.end != calm.end {
						t.Errorf("write %d (%.150s): ended as %s, want %s", n, got.fatal, got.end, calm.end)
					}
					if extra := got.calls - calm.calls; extra < 0 || extra > got.lost(scenario, how) {
						t.Errorf("write %d (%.150s): %d calls more than without a death", n, got.fatal, extra)
					}
				}
			})
		}
	}
}

// afterlife is what came of an execution whose Runner died once.
type afterlife struct {
	died  bool
	end   string
	calls int
	fatal string
}

// lost is how many calls more than without a death there may be: for each one
// that can have been in progress the retry or the round that the definition
// allows, with the question to the desk before it. Alone, a workflow loses none
// unless it died between a call and its outcome.
func (a afterlife) lost(s crashScenario, how death) int {
	inProgress := strings.Contains(a.fatal, "TaskScheduled")
	if how != wholeWritten {
		inProgress = slices.ContainsFunc([]string{"TaskSubmitted", "TaskSucceeded", "TaskFailed"}, func(kind string) bool { return strings.Contains(a.fatal, kind) })
	}
	if s.spare == 1 && !inProgress {
		return 0
	}
	return 2 * s.spare
}

func dieAt(t *testing.T, s crashScenario, n int, how death) (out afterlife) {
	t.Helper()
	definition, input := agentRun(t), `{"n": 9007199254740993}`
	if s.definition != "" {
		definition, input = s.definition, numbers(4)
	}
	synctest.Test(t, func(t *testing.T) {
		a := s.agent()
		a.remembers = true
		client := persistentClient{definition: definition, input: input, tokens: a.known, redrives: s.redrives}
		disk := newDyingDisk(n, how)
		options := &Options{Data: t.TempDir()}
		r := open(t, a, options, disk)
		var before string
		if !client.live(t, r, disk) {
			out.died, out.fatal = true, string(disk.last)
			before = eventsIfAny(r)
			closeRunner(t, r)
			disk = newDyingDisk(0, how)
			r = open(t, a, options, disk)
			if !client.live(t, r, disk) {
				t.Fatal("died again")
			}
		}
		arn := "arn:aws:states:us-east-1:000000000000:execution:m:e"
		d := describe(t, r, arn)
		if after := eventsIfAny(r); !strings.HasPrefix(after, before) {
			t.Errorf("write %d: the history changed: %s", n, cmp.Diff(before, after))
		}
		out.end = fmt.Sprintf("%s %s %s %s, told %s", d.Status, d.Output, d.Error, d.Cause, a.said())
		out.calls = len(a.calls)
		if d.Status == Succeeded && (d.Output != s.output || a.said() != s.outcomes) {
			t.Errorf("write %d: output %s, outcomes %s", n, d.Output, a.said())
		}
		closeRunner(t, r)
	})
	return out
}

func TestExecutionComesToItsEndThoughEachRunnerDiesSoon(t *testing.T) {
	t.Parallel()
	definition := agentRun(t)
	for _, name := range []string{"done", "parked"} {
		scenario := crashScenarios[name]
		// With fewer than 4 writes a Runner does not get past the loss of the one
		// before; with 5 each dies during the same call, until the machine gives up.
		for _, writes := range []int{4, 6, 7, 8, 9} {
			t.Run(name+" "+strconv.Itoa(writes), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					a := scenario.agent()
					a.remembers = true
					client := persistentClient{definition: definition, input: `{}`, tokens: a.known}
					options := &Options{Data: t.TempDir()}
					for runners := 1; ; runners++ {
						disk := newDyingDisk(writes, wholeWritten)
						r := open(t, a, options, disk)
						ended := client.live(t, r, disk)
						closeRunner(t, r)
						if ended {
							break
						}
						if runners == 100 {
							t.Fatal("no end in sight")
						}
					}
					r := open(t, a, options, newDyingDisk(0, nothingWritten))
					out := describe(t, r, "arn:aws:states:us-east-1:000000000000:execution:m:e")
					if out.Status != Succeeded || out.Output != scenario.output || a.said() != scenario.outcomes {
						t.Errorf("%s %s %s, told %s", out.Status, out.Output, out.Error, a.said())
					}
					closeRunner(t, r)
				})
			})
		}
	}
}

// open makes a Runner on a disk and lets it go on.
func open(t *testing.T, invoker Invoker, options *Options, disk *dyingDisk) *Runner {
	t.Helper()
	r, err := New(invoker, options)
	if err != nil {
		t.Fatal(err)
	}
	disk.attach(r)
	if err := r.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func closeRunner(t *testing.T, r *Runner) {
	t.Helper()
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// eventsIfAny is the wire form of the whole history of execution e.
func eventsIfAny(r *Runner) string {
	in := GetExecutionHistoryInput{ExecutionARN: "arn:aws:states:us-east-1:000000000000:execution:m:e"}
	in.MaxResults = 1000
	page, err := r.GetExecutionHistory(in)
	if err != nil {
		return ""
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	for _, e := range page.Events {
		if err := encoder.Encode(e); err != nil {
			return err.Error()
		}
	}
	return out.String()
}
