// Package stack starts the whole system on one machine: a real DynamoDB engine,
// a Step Functions runner, a Lambda supervisor with the built functions, the
// operator's API and a billing service with a database of its own. All but the
// last answer on one port, which is all that AWS_ENDPOINT_URL has to name.
// Start with [Start].
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/billing"
	"github.com/onceward/onceward/localstack/dynamodb"
	"github.com/onceward/onceward/localstack/faults"
	"github.com/onceward/onceward/localstack/gateway"
	"github.com/onceward/onceward/localstack/lambda"
	"github.com/onceward/onceward/localstack/stepfunctions"
)

// Stage names the local deployment's resources.
const Stage = "local"

// ReadyPrefix starts the line that a program prints once its stack is ready; the
// stack's URL follows.
const ReadyPrefix = "ready "

// BillingClient is the client id that the functions sign in with.
const BillingClient = "client-7f3a"

// Options configures a stack. Root, Exe and BillingArgs are required.
type Options struct {
	Root        string       // the repository
	Listen      string       // loopback host:port; defaults to a free port
	Exe         string       // a program that runs billing.Run when called with BillingArgs
	BillingArgs []string     // to which the data file's path is appended
	DynamoDB    string       // URL of an engine that runs already; defaults to a child process
	Engine      string       // dynoxide or dynalite; defaults to what is installed
	WaitScale   float64      // shortens the machine's waits and retries; defaults to 1
	Logs        io.Writer    // receives the functions' logs; defaults to nobody
	Logger      *slog.Logger // hears of what the stack does; defaults to nobody
	Say         func(string) // is told of each step of a long start; defaults to nobody

	// Data is the directory that everything is kept below: the engine's data (if
	// the stack starts the engine), executions and the billing service's
	// database. It is made if it is missing; a later stack on the same directory
	// goes on from there, also after SIGKILL. One stack at a time can use it
	// ([ErrDataInUse]), and only of one layout and engine ([ErrDataLayout]).
	// Empty keeps nothing.
	Data string
	// SweepEvery is how often the sweeper's function is invoked; it is also told
	// of each execution that fails, at once. Zero means never.
	SweepEvery time.Duration
}

// DefaultSweepEvery is how often a stack for people sweeps.
const DefaultSweepEvery = 10 * time.Second

// Stack is a running system. Close ends it.
type Stack struct {
	URL        string // serves DynamoDB, Step Functions, Lambda and the operator's API
	BillingURL string
	Names      names.Names
	Faults     *faults.Plan
	Lambda     *lambda.Supervisor
	Billing    *billing.Client

	options  Options
	data     *data
	sweeps   *sweeps
	runner   *stepfunctions.Runner
	listener net.Listener
	closers  []func(context.Context) error
}

// Start builds the functions and starts everything; it returns when all of it
// answers and what was kept in [Options.Data] goes on. ctx bounds the start
// only. On an error nothing is left running.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Stack{Names: names.ForStage(Stage), options: o.withDefaults()}
	defer func() {
		if err != nil {
			// The caller's context may be what ended the start.
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []func(context.Context) error{s.listen, s.installEngine, s.openData, s.startBilling, s.serve, s.addFunctions} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	s.options.Say("making the table and the state machines, where they are missing")
	if err := s.makeTable(ctx); err != nil {
		return nil, err
	}
	if err := s.makeMachines(ctx); err != nil {
		return nil, err
	}
	s.sweeps.start() //nolint:contextcheck // they go on after the start
	if err := s.runner.Recover(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (o Options) check() error {
	if o.Root == "" || o.Exe == "" || len(o.BillingArgs) == 0 {
		return errors.New("stack: Root, Exe and BillingArgs are required")
	}
	if o.SweepEvery < 0 {
		return errors.New("stack: SweepEvery must not be negative")
	}
	if o.DynamoDB != "" && o.Engine != "" {
		return errors.New("stack: either a DynamoDB engine that runs already or the kind of one to start, not both")
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Close stops everything, the last started first, and waits for it.
func (s *Stack) Close(ctx context.Context) error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer(ctx))
	}
	s.closers = nil
	return errors.Join(errs...)
}

func (s *Stack) onClose(f func(context.Context) error) { s.closers = append(s.closers, f) }

// listen takes the port before anything is built, so that a port in use is told
// at once.
func (s *Stack) listen(ctx context.Context) (err error) {
	address := s.options.Listen
	if address == "" {
		address = "127.0.0.1:0"
	}
	if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
		return fmt.Errorf("stack: %w; is another stack running? choose another --port", err)
	}
	s.URL = "http://" + s.listener.Addr().String()
	s.onClose(func(context.Context) error {
		_ = s.listener.Close() // the server has closed it, if it came to that
		return nil
	})
	return nil
}

// openData takes the directory that data is kept in, or makes a temporary one.
func (s *Stack) openData(context.Context) (err error) {
	if s.options.Data == "" {
		s.data, err = temporary()
	} else {
		var engine string
		if engine, err = s.engineKind(); err != nil {
			return err
		}
		s.data, err = openData(s.options.Data, engine)
	}
	if err != nil {
		return err
	}
	s.onClose(s.data.close)
	return nil
}

func (s *Stack) startBilling(ctx context.Context) error {
	s.options.Say("starting the billing service")
	p, err := billing.Command{Exe: s.options.Exe, Args: append(slices.Clone(s.options.BillingArgs), s.data.billing())}.Start(ctx)
	if err != nil {
		return fmt.Errorf("stack: billing service: %w", err)
	}
	s.BillingURL = p.URL()
	s.Billing = billing.NewClient(s.BillingURL, nil)
	s.onClose(p.Stop)
	return nil
}

// serve starts what answers on the one port. The functions are added after it,
// because they are told the port.
func (s *Stack) serve(ctx context.Context) error {
	engine, err := s.startEngine(ctx)
	if err != nil {
		return err
	}
	if s.Lambda, err = lambda.New(lambda.Options{Endpoint: s.URL, Logs: s.options.Logs}); err != nil {
		return err
	}
	s.onClose(func(context.Context) error { s.Lambda.Close(); return nil })
	s.Faults = faults.NewPlan(faults.Options{Caller: s.Lambda.Caller, Kill: s.Lambda.KillByAccessKey, Logger: s.options.Logger})
	gate, err := gateway.New(s.invokeOperator, gateway.Options{Scopes: []string{"calls:read", "calls:decide", "runs:drive"}})
	if err != nil {
		return err
	}
	proxy, err := dynamodb.NewProxy(engine)
	if err != nil {
		return err
	}
	s.sweeps = newSweeps(s.invokeSweeper, s.options.SweepEvery, s.options.Logger)
	if s.runner, err = s.newRunner(); err != nil { //nolint:contextcheck // it lives longer than the start
		return err
	}
	server := &http.Server{
		Handler:           newFront(s, proxy, s.runner.Handler(), gate),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // dropped connections are the point
	}
	s.onClose(func(ctx context.Context) error {
		s.sweeps.close()
		// First of all, so that no execution takes the end of the rest for a failure.
		err := s.runner.Close(ctx)
		s.Faults.Clear() // lets go of what a rule holds
		err = errors.Join(err, server.Close())
		gate.Close()
		return err
	})
	go func() { _ = server.Serve(s.listener) }()
	return nil
}

func (s *Stack) newRunner() (*stepfunctions.Runner, error) {
	invoker, err := stepfunctions.NewLambdaInvoker(s.URL, lambda.Region, s.Config().Credentials)
	if err != nil {
		return nil, err
	}
	return stepfunctions.New(invoker, &stepfunctions.Options{
		WaitScale: s.options.WaitScale, Logger: s.options.Logger, Data: s.data.journal(), Ended: s.sweeps.tell,
	})
}

func (s *Stack) invokeOperator(ctx context.Context, payload []byte) (response []byte, functionError string, err error) {
	result, err := s.Lambda.Invoke(ctx, lambda.Invocation{Function: s.Names.Function(names.Operator), Payload: payload})
	return result.Payload, result.FunctionError, err
}

func (s *Stack) invokeSweeper(ctx context.Context, payload []byte) error {
	result, err := s.Lambda.Invoke(ctx, lambda.Invocation{Function: s.Names.Function(names.Sweeper), Payload: payload})
	if err == nil && result.FunctionError != "" {
		err = fmt.Errorf("stack: the sweeper's function failed: %s", result.FunctionError)
	}
	return err
}
