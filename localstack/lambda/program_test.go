package lambda_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	runtime "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/localstack/lambda"
)

// The test binary is its own Lambda function: started with this variable it
// is the named program instead of running tests.
const programVariable = "LAMBDA_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(programVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "function":
		runtime.Start(serve)
	case "dies at start":
		fmt.Fprintln(os.Stderr, "no settings")
		os.Exit(3)
	case "dies at first start":
		if os.Mkdir(os.Getenv("ONCE"), 0o700) == nil {
			os.Exit(3)
		}
		runtime.Start(serve)
	case "hangs at start":
		select {}
	case "host":
		host()
	}
}

type order struct {
	Do   string `json:"do"`
	Addr string `json:"addr"`
	Size int    `json:"size"`
	Text string `json:"text"`
}

type facts struct {
	PID, RequestID, ARN, Trace, AccessKey string
	Left                                  time.Duration
	Env                                   []string
	ClientContext                         map[string]string
}

func serve(ctx context.Context, in order) (any, error) {
	switch in.Do {
	case "facts":
		return learn(ctx), nil
	case "meet":
		return learn(ctx), meet(ctx, in.Addr)
	case "print":
		fmt.Print(in.Text)
	case "size":
		return strings.Repeat("x", in.Size-2), nil // two bytes are its quotes
	case "error":
		return nil, errors.New("no such account")
	case "panic":
		panic("broken")
	case "exit 0":
		os.Exit(0)
	case "exit 7":
		os.Exit(7)
	}
	return "done", nil
}

func learn(ctx context.Context) facts {
	lc, _ := lambdacontext.FromContext(ctx)
	deadline, _ := ctx.Deadline()
	return facts{
		PID: strconv.Itoa(os.Getpid()), RequestID: lc.AwsRequestID, ARN: lc.InvokedFunctionArn,
		Trace: os.Getenv("_X_AMZN_TRACE_ID"), AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"),
		Left: time.Until(deadline), Env: os.Environ(), ClientContext: lc.ClientContext.Custom,
	}
}

// meet tells the test that the handler runs, by a connection that ends with
// the process, and goes on when the test sends a line.
func meet(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(context.WithoutCancel(ctx), "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = bufio.NewReader(conn).ReadString('\n')
	return err
}

// host runs a supervisor with one function under way, to be killed with it.
func host() {
	s, err := lambda.New(lambda.Options{}, lambda.Function{
		Name: "f", Path: os.Args[0], Timeout: time.Minute, Env: map[string]string{programVariable: "function"},
	})
	if err != nil {
		panic(err)
	}
	payload, err := json.Marshal(order{Do: "meet", Addr: os.Getenv("MEET")})
	if err != nil {
		panic(err)
	}
	_, err = s.Invoke(context.Background(), lambda.Invocation{Function: "f", Payload: payload})
	panic(err)
}

func function(t *testing.T, name string) lambda.Function {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return lambda.Function{
		Name: name, Path: path, Timeout: time.Minute, Env: map[string]string{programVariable: "function"},
	}
}

func start(t *testing.T, options lambda.Options, functions ...lambda.Function) *lambda.Supervisor {
	t.Helper()
	if len(functions) == 0 {
		functions = []lambda.Function{function(t, "f")}
	}
	s, err := lambda.New(options, functions...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func invoke(t *testing.T, s *lambda.Supervisor, in order) lambda.Result {
	t.Helper()
	payload, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.Invoke(t.Context(), lambda.Invocation{Function: "f", Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func factsOf(t *testing.T, r lambda.Result) facts {
	t.Helper()
	var got facts
	if err := json.Unmarshal(r.Payload, &got); err != nil || r.FunctionError != "" {
		t.Fatalf("%s %s: %v", r.FunctionError, r.Payload, err)
	}
	return got
}

// doorbell accepts the connections of handlers that meet the test.
type doorbell struct{ net.Listener }

func newDoorbell(t *testing.T) doorbell {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return doorbell{l}
}

func (d doorbell) order() order { return order{Do: "meet", Addr: d.Addr().String()} }

func (d doorbell) wait(t *testing.T) net.Conn {
	t.Helper()
	conn, err := d.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// reports passes on the reports of invocations that end.
type reports chan string

func (r reports) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("REPORT RequestId")) {
		r <- string(line)
	}
	return len(line), nil
}
