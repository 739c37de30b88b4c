package main

import (
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/stack"
)

func TestEachStartPrintsLinesForARunOfItsOwn(t *testing.T) {
	t.Parallel()
	s := &stack.Stack{URL: "http://127.0.0.1:1", BillingURL: "http://127.0.0.1:2", Names: names.ForStage(stack.Stage)}
	run := freshRun()
	if run == freshRun() {
		t.Error("two runs have one id")
	}
	told := pasteLines(s, run)
	if strings.Contains(told, "$") {
		t.Errorf("something is not filled in:\n%s", told)
	}
	for _, part := range []string{
		"--name " + run + " ", `"run_id":"` + run + `"`, "http://127.0.0.1:1/v1/tool-executions/" + run + ":call_1/resolve",
		"'http://127.0.0.1:2/_effects?account_id=" + run + "-lose-answer-lookup-down'", `"account_id":"` + run + `-lose-answer-lookup-down"`,
	} {
		if !strings.Contains(told, part) {
			t.Errorf("no %q in\n%s", part, told)
		}
	}
}

func TestFlagThatCannotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"--port=99999": "--port=99999: want 0 to 65535", "--port=-1": "--port=-1: want", "--sweep-every=-1s": "--sweep-every=-1s: want", "--sweep-every=30": "--sweep-every", "--sweep-every=0": "", "--port=0": ""} {
		var cli commandLine
		parser, err := kong.New(&cli, kong.Vars{"sweep_every": stack.DefaultSweepEvery.String()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = parser.Parse([]string{"up", flag})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestStoppingSaysWhatIsKept(t *testing.T) {
	t.Parallel()
	for want, up := range map[string]upCommand{
		"stopping; nothing is kept":                                        {SweepEvery: time.Second},
		"stopping; go on with --data /d":                                   {Data: "/d"},
		"stopping; nothing is kept but what the engine at http://e/ keeps": {engineFlags: engineFlags{DynamoDB: "http://e/"}},
	} {
		if got := up.stopping(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
