package process_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/localstack/process"
)

// roleVariable makes the test binary a child with a role instead of running tests.
const roleVariable = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m)
	case "mute":
		os.Exit(3)
	case "silent":
		forever()
	case "polite": // a signal does what it does by default
		say("ready as " + role)
		forever()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		say("ready as " + role)
		forever()
	case "parent":
		os.Exit(beParent())
	}
}

// forever outlasts every test. (With nothing to wait for, the runtime would call
// it a deadlock.)
func forever() { <-time.After(time.Hour) }

func say(line string) { fmt.Fprintln(os.Stdout, line) }

// beParent starts a child by Start, tells its process id and waits for ever.
func beParent() int {
	p, said, err := process.StartReady(context.Background(), child("polite"), "ready as ")
	if err != nil || said != "polite" {
		fmt.Fprintln(os.Stderr, said, err)
		return 1
	}
	say("ready " + strconv.Itoa(p.PID()))
	forever()
	return 0
}

func child(role string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}
