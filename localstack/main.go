// Command localstack runs the whole of Onceward on one machine, from the
// programs that are deployed: without an account, without Docker. It serves
// until it is interrupted, or tells the demo's stories and ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/onceward/onceward/localstack/billing"
	"github.com/onceward/onceward/localstack/demo"
	"github.com/onceward/onceward/localstack/stack"
)

// billingCommand is the hidden command by which this program runs the billing
// service in a process of its own.
const billingCommand = "billing"

type commandLine struct {
	Up      upCommand    `cmd:"" default:"withargs" help:"Start everything and keep it running (the default)."`
	Demo    demoCommand  `cmd:"" help:"Tell the stories: what happens to a payment when an answer is lost."`
	Billing billingChild `cmd:"" hidden:""`
}

// engineFlags choose the DynamoDB engine.
type engineFlags struct {
	DynamoDB string `name:"dynamodb" placeholder:"URL" help:"Use the DynamoDB engine at this URL instead of starting one."`
	Engine   string `enum:",dynoxide,dynalite" default:"" help:"Start this engine: dynoxide (the default on Linux x64) or dynalite."`
}

type upCommand struct {
	engineFlags
	Port       int           `default:"4566" help:"The port that DynamoDB, Step Functions, Lambda and the operator's API answer on."`
	Data       string        `type:"path" placeholder:"DIR" help:"Keep everything below this directory and go on from what is there. Without it nothing is kept. What is in an engine given by --dynamodb is that engine's to keep."`
	SweepEvery time.Duration `default:"${sweep_every}" help:"How often the sweeper is invoked, such as 30s; 0 for never. It also hears of each execution that fails."`
	WaitScale  float64       `default:"1" help:"Shorten the state machine's waits and retries by this factor, such as 0.1."`
	Verbose    bool          `short:"v" help:"Print the functions' logs."`
}

type demoCommand struct {
	engineFlags
	JSON    bool `name:"json" help:"Print one JSON document on standard output; progress goes to standard error."`
	Verbose bool `short:"v" help:"Print the functions' logs on standard error."`
}

type billingChild struct {
	File string `arg:""`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A client that hangs up must not end the stack: a closed socket brings this
	// signal too. Whoever closes our output is found out by the write.
	signal.Ignore(syscall.SIGPIPE)
	var cli commandLine
	parsed := kong.Parse(&cli,
		kong.Name("localstack"),
		kong.Description("Onceward on one machine: DynamoDB, Step Functions, Lambda and the operator's API on one port."),
		kong.UsageOnError(),
		kong.Vars{"sweep_every": stack.DefaultSweepEvery.String()},
		kong.BindTo(ctx, (*context.Context)(nil)))
	parsed.FatalIfErrorf(parsed.Run())
}

func options(e engineFlags, logs io.Writer, say func(string)) (stack.Options, error) {
	dir, err := os.Getwd()
	if err != nil {
		return stack.Options{}, err
	}
	root, err := stack.FindRoot(dir)
	if err != nil {
		return stack.Options{}, err
	}
	exe, err := os.Executable()
	if err != nil {
		return stack.Options{}, err
	}
	return stack.Options{Root: root, Exe: exe, BillingArgs: []string{billingCommand}, DynamoDB: e.DynamoDB, Engine: e.Engine, Logs: logs, Say: say}, nil
}

// Validate names the flag that can't be used.
func (c upCommand) Validate() error {
	switch {
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("--port=%d: want 0 to 65535, 0 for a free one", c.Port)
	case c.SweepEvery < 0:
		return fmt.Errorf("--sweep-every=%s: want a time such as 30s, or 0 for never", c.SweepEvery)
	}
	return nil
}

// stopping says what becomes of what the stack holds.
func (c upCommand) stopping() string {
	switch {
	case c.Data != "":
		return "stopping; go on with --data " + c.Data
	case c.DynamoDB != "":
		return "stopping; nothing is kept but what the engine at " + c.DynamoDB + " keeps"
	}
	return "stopping; nothing is kept"
}

// Run starts the stack and serves until the context ends.
func (c upCommand) Run(ctx context.Context) error {
	var logs io.Writer
	if c.Verbose {
		logs = os.Stderr
	}
	o, err := options(c.engineFlags, logs, func(step string) { fmt.Fprintln(os.Stderr, step) })
	if err != nil {
		return err
	}
	o.Listen = fmt.Sprintf("127.0.0.1:%d", c.Port)
	o.WaitScale = c.WaitScale
	o.Data, o.SweepEvery = c.Data, c.SweepEvery
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := stack.Start(ctx, o)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, stack.ReadyPrefix+s.URL); err != nil {
		return errors.Join(err, s.Close(context.WithoutCancel(ctx))) // nobody would hear the address
	}
	fmt.Fprint(os.Stderr, pasteLines(s, freshRun()))
	<-ctx.Done()
	fmt.Fprintln(os.Stderr, c.stopping())
	return s.Close(context.WithoutCancel(ctx))
}

// listened ends what is told when nobody listens any more.
type listened struct {
	to   io.Writer
	stop context.CancelFunc
}

// Write implements [io.Writer].
func (l listened) Write(p []byte) (int, error) {
	n, err := l.to.Write(p)
	if err != nil {
		l.stop()
	}
	return n, err
}

// Run tells the stories on a stack of their own.
func (c demoCommand) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	told := io.Writer(listened{os.Stdout, stop})
	if c.JSON {
		told = listened{os.Stderr, stop}
	}
	var logs io.Writer
	if c.Verbose {
		logs = os.Stderr
	}
	o, err := options(c.engineFlags, logs, func(step string) { fmt.Fprintln(told, "  "+step) })
	if err != nil {
		return err
	}
	o.WaitScale, o.SweepEvery = demo.WaitScale, stack.DefaultSweepEvery
	s, err := stack.Start(ctx, o)
	if err != nil {
		return err
	}
	report, err := demo.Tell(ctx, s, o.Exe, told)
	if closeErr := s.Close(context.WithoutCancel(ctx)); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if c.JSON {
		if err := report.WriteJSON(os.Stdout); err != nil {
			return err
		}
	}
	return report.Err()
}

// Run serves the billing service until the context ends.
func (c billingChild) Run(ctx context.Context) error {
	return billing.Run(ctx, billing.Config{DataFile: c.File, Logger: slog.New(slog.DiscardHandler)}, os.Stdout)
}
