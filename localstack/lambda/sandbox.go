package lambda

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/onceward/onceward/localstack/process"
)

// call is one invocation on its way through a sandbox.
type call struct {
	id, arn, trace, clientContext string
	payload                       []byte
	begun, deadline               time.Time

	// logged says that the START line was written before the process had the call.
	logged bool
	// done is closed when the process asks for its next call after it answered.
	done chan struct{}

	// Guarded by the sandbox's lock.
	answered bool
	out      outcome
}

// sandbox is one process of a function with its Runtime API.
type sandbox struct {
	fn        Function
	log       *sandboxLog
	accessKey string
	secretKey string
	busy      bool        // guarded by the supervisor's lock
	idleSince time.Time   // guarded by the supervisor's lock
	reaper    *time.Timer // kills it when it was idle for long; guarded by the supervisor's lock

	child  *process.Process // nil before start
	stream *logStream
	server *http.Server

	ready   chan struct{} // closed by the first request for a call
	initErr chan outcome  // what the process reported of its start
	work    chan *call
	exited  chan struct{} // closed when the process is gone and exitErr is set
	exitErr error

	mu      sync.Mutex
	call    *call
	isReady bool
}

func newSandbox(fn Function, log *functionLog) *sandbox {
	return &sandbox{
		fn: fn, log: &sandboxLog{log: log}, busy: true,
		// The shape of an AWS key: four letters, then sixteen of base 32.
		accessKey: "AKIA" + rand.Text()[:16],
		secretKey: rand.Text() + rand.Text()[:14],
		ready:     make(chan struct{}), initErr: make(chan outcome, 1),
		work: make(chan *call), exited: make(chan struct{}),
	}
}

// start begins the process and its Runtime API; ended is called once both are
// gone, before exited is closed. On an error nothing is left running and ended
// is not called.
// ctx must not end while the process may live.
func (sb *sandbox) start(ctx context.Context, endpoint string, ended func()) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stream, output, err := newLogStream(sb.log)
	if err != nil {
		_ = listener.Close()
		return err
	}
	sb.stream = stream
	sb.server = &http.Server{Handler: sb.runtimeAPI(), ReadHeaderTimeout: time.Minute}
	cmd := exec.CommandContext(ctx, sb.fn.Path)
	cmd.Dir = filepath.Dir(sb.fn.Path)
	cmd.Env = sb.environment(endpoint, listener.Addr().String())
	cmd.Stdout, cmd.Stderr = output, output
	if sb.child, err = process.Start(cmd); err != nil {
		_ = listener.Close()
		stream.close()
		return err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = sb.server.Serve(listener)
	}()
	go func() {
		sb.exitErr = sb.child.Err()
		_ = sb.server.Close()
		<-served
		stream.close()
		ended()
		close(sb.exited)
	}()
	return nil
}

// kill ends the process and what it started, and waits for both.
func (sb *sandbox) kill() {
	sb.child.Kill()
	<-sb.exited
}

// environment is all that the process gets to see of ours.
func (sb *sandbox) environment(endpoint, api string) []string {
	stream := make([]byte, 16)
	_, _ = rand.Read(stream) // never fails
	env := []string{
		"AWS_ACCESS_KEY_ID=" + sb.accessKey,
		"AWS_SECRET_ACCESS_KEY=" + sb.secretKey,
		"AWS_REGION=" + Region,
		"AWS_DEFAULT_REGION=" + Region,
		"AWS_EXECUTION_ENV=AWS_Lambda_provided.al2023",
		"AWS_LAMBDA_FUNCTION_NAME=" + sb.fn.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=" + latest,
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + strconv.Itoa(sb.fn.MemoryMB),
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + sb.fn.Name,
		fmt.Sprintf("AWS_LAMBDA_LOG_STREAM_NAME=%s/[%s]%s",
			time.Now().UTC().Format("2006/01/02"), latest, hex.EncodeToString(stream)),
		"AWS_LAMBDA_RUNTIME_API=" + api,
		"LAMBDA_TASK_ROOT=" + filepath.Dir(sb.fn.Path),
		"_HANDLER=bootstrap",
		"TZ=:UTC",
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if endpoint != "" {
		env = append(env, "AWS_ENDPOINT_URL="+endpoint)
	}
	for name, value := range sb.fn.Env {
		env = append(env, name+"="+value) // the last of one name counts
	}
	return env
}

// outcomeOf tells how a call ended; false if the process never answered it.
func (sb *sandbox) outcomeOf(c *call) (outcome, bool) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return c.out, c.answered
}
