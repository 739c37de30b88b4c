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
	"os"
	"path/filepath"
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
}

// Stack is a running system. Close ends it.
type Stack struct {
	URL        string // serves DynamoDB, Step Functions, Lambda and the operator's API
	BillingURL string
	Names      names.Names
	Faults     *faults.Plan
	Lambda     *lambda.Supervisor
	Billing    *billing.Client

	listener net.Listener
	closers  []func(context.Context) error
}

// Start builds the functions and starts everything; it returns when all of it
// answers. ctx bounds the start only. On an error nothing is left running.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	s := &Stack{Names: names.ForStage(Stage)}
	defer func() {
		if err != nil {
			// The caller's context may be what ended the start.
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := s.listen(ctx, o); err != nil {
		return nil, err
	}
	if err := installEngine(ctx, o); err != nil {
		return nil, err
	}
	built, err := build(ctx, o)
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp("", "onceward-")
	if err != nil {
		return nil, err
	}
	s.onClose(func(context.Context) error { return os.RemoveAll(data) })
	if err := s.startBilling(ctx, o, filepath.Join(data, "billing.db")); err != nil {
		return nil, err
	}
	if err := s.serve(ctx, o); err != nil {
		return nil, err
	}
	if err := s.addFunctions(ctx, built); err != nil {
		return nil, err
	}
	o.Say("making the table and the state machines")
	if err := s.makeTable(ctx); err != nil {
		return nil, err
	}
	if err := s.makeMachines(ctx); err != nil {
		return nil, err
	}
	return s, nil
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

func (s *Stack) startBilling(ctx context.Context, o Options, file string) error {
	o.Say("starting the billing service")
	p, err := billing.Command{Exe: o.Exe, Args: append(append([]string{}, o.BillingArgs...), file)}.Start(ctx)
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
func (s *Stack) serve(ctx context.Context, o Options) error {
	o.Say("starting the DynamoDB engine")
	engine, err := s.startEngine(ctx, o)
	if err != nil {
		return err
	}
	if s.Lambda, err = lambda.New(lambda.Options{Endpoint: s.URL, Logs: o.Logs}); err != nil {
		return err
	}
	s.onClose(func(context.Context) error { s.Lambda.Close(); return nil })
	s.Faults = faults.NewPlan(faults.Options{Caller: s.Lambda.Caller, Kill: s.Lambda.KillByAccessKey, Logger: o.Logger})
	runner, err := s.newRunner(o) //nolint:contextcheck // it lives longer than the start
	if err != nil {
		return err
	}
	gate, err := gateway.New(s.invokeOperator, gateway.Options{Scopes: []string{"calls:read", "calls:decide"}})
	if err != nil {
		return err
	}
	proxy, err := dynamodb.NewProxy(engine)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           newFront(s, proxy, runner.Handler(), gate),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // dropped connections are the point
	}
	s.onClose(func(ctx context.Context) error {
		s.Faults.Clear() // lets go of what a rule holds
		err := errors.Join(server.Close(), runner.Close(ctx))
		gate.Close()
		return err
	})
	go func() { _ = server.Serve(s.listener) }()
	return nil
}

// listen takes the port before anything is built, so that a port in use is told
// at once.
func (s *Stack) listen(ctx context.Context, o Options) (err error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen); err != nil {
		return fmt.Errorf("stack: %w; is another stack running? choose another --port", err)
	}
	s.URL = "http://" + s.listener.Addr().String()
	s.onClose(func(context.Context) error {
		_ = s.listener.Close() // the server has closed it, if it came to that
		return nil
	})
	return nil
}

// startEngine returns the URL of the DynamoDB engine.
func (s *Stack) startEngine(ctx context.Context, o Options) (string, error) {
	if o.DynamoDB != "" {
		return o.DynamoDB, nil
	}
	program, err := dynamodb.Find(o.Root)
	if o.Engine != "" {
		program, err = dynamodb.FindKind(o.Root, dynamodb.Kind(o.Engine))
	}
	if err != nil {
		return "", err
	}
	engine, err := dynamodb.Start(ctx, program, dynamodb.Options{})
	if err != nil {
		return "", err
	}
	s.onClose(func(context.Context) error { return engine.Stop() })
	return engine.Endpoint(), nil
}

func (s *Stack) newRunner(o Options) (*stepfunctions.Runner, error) {
	invoker, err := stepfunctions.NewLambdaInvoker(s.URL, lambda.Region, s.Config().Credentials)
	if err != nil {
		return nil, err
	}
	return stepfunctions.New(invoker, &stepfunctions.Options{WaitScale: o.WaitScale, Logger: o.Logger})
}

func (s *Stack) invokeOperator(ctx context.Context, payload []byte) (response []byte, functionError string, err error) {
	result, err := s.Lambda.Invoke(ctx, lambda.Invocation{Function: s.Names.Function(names.Operator), Payload: payload})
	return result.Payload, result.FunctionError, err
}
