package stepfunctions

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/stepfunctions/journal"
)

// restarts runs test in a bubble with a Runner that can be stopped and begun
// anew on its data.
func restarts(t *testing.T, invoker Invoker, test func(t *testing.T, h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &host{invoker: invoker, options: Options{Data: t.TempDir()}, began: time.Now()}
		h.up(t)
		test(t, h)
		closeRunner(t, h.Runner)
	})
}

// host is a machine on which a Runner comes and goes.
type host struct {
	*Runner
	invoker Invoker
	options Options
	began   time.Time
}

func (h *host) up(t *testing.T) {
	t.Helper()
	h.Runner = open(t, h.invoker, &h.options, newDyingDisk(0, nothingWritten))
}

// die stops the Runner as a kill does: nothing that it does from now on is stored.
func (h *host) die(t *testing.T) {
	t.Helper()
	refuse := func(string, []byte) error { return errDead }
	h.store.create, h.store.append = refuse, refuse
	closeRunner(t, h.Runner)
}

// dieFor is die, and up after d.
func (h *host) dieFor(t *testing.T, d time.Duration) {
	t.Helper()
	synctest.Wait()
	h.die(t)
	time.Sleep(d)
	h.up(t)
}

// at is how long after the beginning it is.
func (h *host) at() time.Duration { return time.Since(h.began) }

func TestWaitEndsWhenItWouldHaveAlsoAcrossADeath(t *testing.T) {
	t.Parallel()
	stamp := time.Date(2000, 1, 1, 0, 1, 40, 0, time.UTC).Format(time.RFC3339) // 100 s after the bubble begins
	for name, wait := range map[string]string{"seconds": `"Seconds":100`, "timestamp": `"Timestamp":"` + stamp + `"`} {
		for _, seconds := range [][2]int{{20, 100}, {200, 240}} {
			down, want := time.Duration(seconds[0])*time.Second, time.Duration(seconds[1])*time.Second
			t.Run(name+" "+down.String(), func(t *testing.T) {
				t.Parallel()
				restarts(t, &scripted{}, func(t *testing.T, h *host) {
					arn := start(t, h.Runner, create(t, h.Runner, `{"StartAt":"W","States":{"W":{"Type":"Wait",`+wait+`,"End":true}}}`), "e", `{}`)
					time.Sleep(40 * time.Second)
					h.dieFor(t, down)
					if out := finish(t, h.Runner, arn); out.Status != Succeeded || h.at() != want {
						t.Errorf("%s after %s", out.Status, h.at())
					}
				})
			})
		}
	}
}

func TestTimesOfATaskCountFromItsStartAcrossADeath(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		machine string
		beat    bool
		error   string
		status  Status
		at      time.Duration
	}{
		"timeout":             {machine: waiting(`"TimeoutSeconds":100,`), error: "States.Timeout", status: Failed, at: 100 * time.Second},
		"heartbeat":           {machine: waiting(`"HeartbeatSeconds":70,`), error: "States.HeartbeatTimeout", status: Failed, at: 70 * time.Second},
		"heartbeat that came": {machine: waiting(`"HeartbeatSeconds":70,`), beat: true, error: "States.HeartbeatTimeout", status: Failed, at: 90 * time.Second},
		"execution":           {machine: `{"TimeoutSeconds":80,` + waiting("")[1:], status: TimedOut, at: 80 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &doorbell{}
			restarts(t, d, func(t *testing.T, h *host) {
				arn := start(t, h.Runner, create(t, h.Runner, test.machine), "e", `{}`)
				time.Sleep(20 * time.Second)
				if test.beat {
					if _, err := h.SendTaskHeartbeat(SendTaskHeartbeatInput{TaskToken: d.token(0)}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(20 * time.Second)
				h.dieFor(t, 10*time.Second)
				if out := finish(t, h.Runner, arn); out.Status != test.status || out.Error != test.error || h.at() != test.at {
					t.Errorf("%s %s after %s", out.Status, out.Error, h.at())
				}
			})
		})
	}
}

func TestTokensOutliveTheRunner(t *testing.T) {
	t.Parallel()
	restarts(t, &doorbell{}, func(t *testing.T, h *host) {
		machine := create(t, h.Runner, waiting(`"TimeoutSeconds":100,`))
		open, answered := start(t, h.Runner, machine, "open", `{}`), start(t, h.Runner, machine, "answered", `{}`)
		synctest.Wait()
		if _, err := h.SendTaskSuccess(success(lastToken(t, h.Runner, answered), `{"n":9007199254740993}`)); err != nil {
			t.Fatal(err)
		}
		token := lastToken(t, h.Runner, open)
		h.dieFor(t, time.Second)
		if out := finish(t, h.Runner, answered); out.Output != `{"n":9007199254740993}` {
			t.Errorf("%s %s", out.Status, out.Output)
		}
		_, err := h.SendTaskSuccess(success(lastToken(t, h.Runner, answered), `{}`))
		wantAPIError(t, err, codeTaskTimedOut)
		_, err = h.SendTaskSuccess(success("made up", `{}`))
		wantAPIError(t, err, codeInvalidToken)
		if _, err := h.SendTaskSuccess(success(token, `{"late":true}`)); err != nil {
			t.Fatal(err)
		}
		if out := finish(t, h.Runner, open); out.Output != `{"late":true}` {
			t.Errorf("%s %s", out.Status, out.Output)
		}
		if _, err := h.SendTaskFailure(SendTaskFailureInput{TaskToken: token}); err == nil {
			t.Error("a second answer was taken")
		}
	})
}

func TestAnswerThatWasTakenCountsThoughTheRunnerDiedAtOnce(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	restarts(t, d, func(t *testing.T, h *host) {
		machine := create(t, h.Runner, waiting(`"TimeoutSeconds":100,`))
		arn := start(t, h.Runner, machine, "e", `{}`)
		synctest.Wait()
		// The answer is stored, and nothing after it.
		append1 := h.store.append
		h.store.append = func(path string, payload []byte) error {
			refuse := func(string, []byte) error { return errDead }
			h.store.append = refuse
			return append1(path, payload)
		}
		if _, err := h.SendTaskSuccess(success(d.token(0), `"yes"`)); err != nil {
			t.Fatal(err)
		}
		h.dieFor(t, time.Hour) // far beyond the task's time
		if out := finish(t, h.Runner, arn); out.Output != `"yes"` {
			t.Errorf("%s %s", out.Status, out.Error)
		}
	})
}

func TestTokenWhoseTimeIsOverIsRefusedBeforeRecover(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	restarts(t, d, func(t *testing.T, h *host) {
		start(t, h.Runner, create(t, h.Runner, waiting(`"TimeoutSeconds":100,`)), "e", `{}`)
		synctest.Wait()
		h.die(t)
		time.Sleep(100 * time.Second)
		var err error
		if h.Runner, err = New(d, &h.options); err != nil {
			t.Fatal(err)
		}
		_, err = h.SendTaskSuccess(success(d.token(0), `{}`))
		wantAPIError(t, err, codeTaskTimedOut)
	})
}

func TestCallInProgressAtADeathIsUnknownAndRetryDecides(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		task  string
		calls int
		error string
	}{
		"no retry":           {"", 1, ErrorSdkClient},
		"retry names it":     {`"Retry":[{"ErrorEquals":["Lambda.SdkClientException"],"IntervalSeconds":1}],`, 2, ""},
		"its time over":      {`"TimeoutSeconds":4000,`, 1, ErrorSdkClient},
		"retry names others": {`"Retry":[{"ErrorEquals":["Lambda.TooManyRequestsException"]}],`, 1, ErrorSdkClient},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := functionF(func(n int, _ map[string]any) (Invoked, error) {
				if n == 1 {
					time.Sleep(time.Hour)
				}
				return answerJSON(`{"n":` + strconv.Itoa(n) + `}`)
			})
			restarts(t, f, func(t *testing.T, h *host) {
				arn := start(t, h.Runner, create(t, h.Runner, invokeTask("lambda:invoke", test.task)), "e", `{}`)
				synctest.Wait()
				go h.die(t) // it waits for the function, which can't be cancelled
				time.Sleep(2 * time.Hour)
				h.up(t)
				out := finish(t, h.Runner, arn)
				if out.Error != test.error || f.count("f") != test.calls {
					t.Errorf("%s %s after %d calls", out.Status, out.Error, f.count("f"))
				}
			})
		})
	}
}

func TestRetriesThatWereUsedStayUsed(t *testing.T) {
	t.Parallel()
	f := functionF(func(int, map[string]any) (Invoked, error) { return lambdaError("Boom", "x") })
	restarts(t, f, func(t *testing.T, h *host) {
		arn := start(t, h.Runner, create(t, h.Runner, invokeTask("lambda:invoke",
			`"Retry":[{"ErrorEquals":["Boom"],"IntervalSeconds":100,"BackoffRate":1,"MaxAttempts":3}],`)), "e", `{}`)
		time.Sleep(150 * time.Second) // tried at 0 and 100
		h.dieFor(t, 10*time.Second)
		out := finish(t, h.Runner, arn)
		if out.Error != "Boom" || f.count("f") != 4 || h.at() != 300*time.Second {
			t.Errorf("%s after %d calls and %s", out.Error, f.count("f"), h.at())
		}
	})
}

func TestIterationsOfAMapGoOnEachFromItsOwnPlace(t *testing.T) {
	t.Parallel()
	g := &gauge{do: func(ctx context.Context, index int) (Invoked, error) {
		select {
		case <-time.After(time.Duration(10+index) * time.Second):
			return answerJSON(strconv.Itoa(index))
		case <-ctx.Done():
			return Invoked{}, ctx.Err()
		}
	}}
	restarts(t, g, func(t *testing.T, h *host) {
		machine := create(t, h.Runner, mapOver(`"MaxConcurrency":2,`, `"Retry":[{"ErrorEquals":["Lambda.SdkClientException"],"IntervalSeconds":1}],`))
		arn := start(t, h.Runner, machine, "e", numbers(7))
		for range 4 {
			time.Sleep(15 * time.Second)
			before := events(t, h.Runner, arn)
			h.dieFor(t, time.Minute)
			if after := events(t, h.Runner, arn); !strings.HasPrefix(after, before) {
				t.Errorf("the history changed: %s", cmp.Diff(before, after))
			}
		}
		out := finish(t, h.Runner, arn)
		if out.Output != `[{"p":0},{"p":1},{"p":2},{"p":3},{"p":4},{"p":5},{"p":6}]` || g.most != 2 {
			t.Errorf("%s %s %s, %d at once", out.Status, out.Error, out.Output, g.most)
		}
	})
}

func TestStartThatWasInProgressAtADeathStartsOne(t *testing.T) {
	t.Parallel()
	for name, parameters := range map[string]string{"named": `"Name":"child",`, "unnamed": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			definition := `{"StartAt":"C","States":{"C":{"Type":"Choice","Choices":[{"Variable":"$.child","IsPresent":true,"Next":"Done"}],"Default":"S"},"Done":{"Type":"Succeed"},
				"S":{"Type":"Task","Resource":"arn:aws:states:::states:startExecution","Parameters":{"StateMachineArn":"arn:aws:states:us-east-1:000000000000:stateMachine:m",` + parameters + `"Input":{"child":true}},"End":true}}}`
			restarts(t, &scripted{}, func(t *testing.T, h *host) {
				machine := create(t, h.Runner, definition)
				began := 0
				h.store.create = func(path string, payload []byte) error {
					if began++; began == 2 {
						h.store.append = func(string, []byte) error { return errDead } // the child is stored, and nothing after it
					}
					return journal.Create(path, payload)
				}
				arn := start(t, h.Runner, machine, "e", `{}`)
				h.dieFor(t, time.Second)
				out := finish(t, h.Runner, arn)
				list, err := h.ListExecutions(ListExecutionsInput{StateMachineARN: machine})
				if err != nil || out.Status != Succeeded || len(list.Executions) != 2 {
					t.Errorf("%s %s %s, %d executions, %v", out.Status, out.Error, out.Cause, len(list.Executions), err)
				}
			})
		})
	}
}

func TestWhatHasEndedIsStillKnown(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", shortTexts) + `"`
	f := functionF(func(int, map[string]any) (Invoked, error) { return answerJSON(`{"ok":true}`) })
	restarts(t, f, func(t *testing.T, h *host) {
		machine := create(t, h.Runner, invokeTask("lambda:invoke", ""))
		short, large := start(t, h.Runner, machine, "short", `{"a": 1}`), start(t, h.Runner, machine, "large", long)
		running := start(t, h.Runner, createNamed(t, h.Runner, "w", `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":500,"End":true}}}`), "running", `{}`)
		for _, arn := range []string{short, large} {
			finish(t, h.Runner, arn)
		}
		synctest.Wait()
		tell := func() string {
			var all []any
			for _, arn := range []string{short, large, running} {
				all = append(all, describe(t, h.Runner, arn), events(t, h.Runner, arn))
			}
			list, err := h.ListExecutions(ListExecutionsInput{StateMachineARN: machine})
			machines, err2 := h.ListStateMachines(ListStateMachinesInput{})
			return toJSON(t, append(all, list, machines, errors.Join(err, err2) == nil))
		}
		before := tell()
		for range 2 {
			h.dieFor(t, time.Second)
			if diff := cmp.Diff(before, tell()); diff != "" {
				t.Error(diff)
			}
		}
		// Only the journals hold what is long.
		for _, arn := range []string{short, large} {
			if kept := h.executions[arn].story; kept.log.Len() != 0 || kept.places != nil || kept.textless != (arn == large) {
				t.Errorf("%s is still in memory", arn)
			}
		}
		_, err := h.StartExecution(StartExecutionInput{StateMachineARN: machine, Name: new("short"), Input: new(`{"a": 1}`)})
		wantAPIError(t, err, codeExecutionAlreadyExists)
		again, err := h.StartExecution(StartExecutionInput{StateMachineARN: strings.Replace(machine, ":m", ":w", 1), Name: new("running"), Input: new(`{}`)})
		if err != nil || again.ExecutionARN != running {
			t.Errorf("%+v %v", again, err)
		}
		if same := create(t, h.Runner, invokeTask("lambda:invoke", "")); same != machine {
			t.Errorf("created again as %s", same)
		}
	})
}

func TestDeletedMachineLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	restarts(t, &scripted{}, func(t *testing.T, h *host) {
		machine := create(t, h.Runner, `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":100,"End":true}}}`)
		arn := start(t, h.Runner, machine, "e", `{}`)
		if _, err := h.DeleteStateMachine(StateMachineARNInput{StateMachineARN: machine}); err != nil {
			t.Fatal(err)
		}
		h.dieFor(t, 10*time.Second)
		_, err := h.StartExecution(StartExecutionInput{StateMachineARN: machine})
		wantAPIError(t, err, codeStateMachineDeleting)
		time.Sleep(100 * time.Second)
		synctest.Wait()
		_, err = h.DescribeExecution(DescribeExecutionInput{ExecutionARN: arn})
		wantAPIError(t, err, codeExecutionDoesNotExist)
		left, err := filepath.Glob(filepath.Join(h.options.Data, "execution-*"))
		if err != nil || len(left) != 0 {
			t.Errorf("%v %v", left, err)
		}
		create(t, h.Runner, passMachine) // the name is free
		h.dieFor(t, time.Second)
		start(t, h.Runner, machine, "e", `{}`)
	})
}

func TestDirectoryThatCannotBeTrustedIsRefused(t *testing.T) {
	t.Parallel()
	spoil := func(change func(text string) string) func(*testing.T, string) {
		return func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte(change(readFile(t, file))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		spoil func(t *testing.T, file string)
		want  error
	}{
		"another version": {spoil(func(s string) string { return strings.Replace(s, "journal 1", "journal 2", 1) }), journal.ErrVersion},
		"something else":  {spoil(func(string) string { return "{}" }), journal.ErrCorrupt},
		"a changed entry": {spoil(func(s string) string { return strings.Replace(s, "ExecutionStarted", "ExecutionStopped", 1) }), journal.ErrCorrupt},
		"a changed length": {spoil(func(s string) string {
			return s[:len("onceward journal 1\n")] + "\xff" + s[len("onceward journal 1\n")+1:]
		}), journal.ErrCorrupt},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restarts(t, &scripted{}, func(t *testing.T, h *host) {
				arn := start(t, h.Runner, create(t, h.Runner, passMachine), "e", `{}`)
				file := h.store.executionFile(arn)
				finish(t, h.Runner, arn)
				if _, err := New(h.invoker, &h.options); !errors.Is(err, journal.ErrInUse) {
					t.Errorf("a second Runner: %v", err)
				}
				h.die(t)
				text := readFile(t, file)
				test.spoil(t, file)
				if _, err := New(h.invoker, &h.options); !errors.Is(err, test.want) || !strings.Contains(err.Error(), file) {
					t.Errorf("got %v, want %v of %s", err, test.want, file)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				h.up(t)
			})
		})
	}
}

func TestAnswerThatCannotBeStoredIsRefusedAndTheTokenStaysOpen(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*testing.T, *host){
		"closed":          func(t *testing.T, h *host) { closeRunner(t, h.Runner) },
		"journal refuses": func(_ *testing.T, h *host) { h.store.append = func(string, []byte) error { return errDead } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &doorbell{}
			restarts(t, d, func(t *testing.T, h *host) {
				arn := start(t, h.Runner, create(t, h.Runner, waiting("")), "e", `{}`)
				synctest.Wait()
				stop(t, h)
				for range 2 { // also when the execution has come to a halt
					_, err := h.SendTaskSuccess(success(d.token(0), `{}`))
					known, ok := errors.AsType[*APIError](err)
					if err == nil || ok && known.Type != codeServiceUnavailable {
						t.Errorf("answered %v", err)
					}
					synctest.Wait()
				}
				h.dieFor(t, time.Second)
				if _, err := h.SendTaskSuccess(success(d.token(0), `"now"`)); err != nil {
					t.Fatal(err)
				}
				if out := finish(t, h.Runner, arn); out.Output != `"now"` {
					t.Errorf("%+v", out)
				}
			})
		})
	}
}
