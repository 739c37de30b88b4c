package lambda

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Options configures a [Supervisor].
type Options struct {
	// Endpoint is given to sandboxes as AWS_ENDPOINT_URL; empty leaves it out.
	Endpoint string
	// Logs receives every log line of every function, each with the function's
	// name in front, one line per Write and one Write at a time. Nil means nobody.
	Logs io.Writer
	// LogBytes is how much of each function's log is kept; zero means 1 MiB.
	LogBytes int
	// InitTimeout bounds the first start of a sandbox; zero means 10 s.
	InitTimeout time.Duration
	// MaxSandboxes bounds the sandboxes of one function; zero means 100.
	// Invocations beyond it are throttled, as on AWS.
	MaxSandboxes int
}

// Supervisor runs functions. It is safe for concurrent use. Close it, or its
// processes live until this one ends.
type Supervisor struct {
	options Options
	logs    *lineSink

	mu     sync.Mutex
	pools  map[string]*pool
	byKey  map[string]*sandbox
	closed bool
	work   sync.WaitGroup // sandboxes and invocations
}

// pool is a function with its sandboxes, guarded by the supervisor's lock.
type pool struct {
	fn   Function
	log  *functionLog
	all  []*sandbox
	idle []*sandbox // the one used last is last
	made time.Time
	size int64
	// revision is a UUID, as on AWS.
	revision string
	sum      string
}

// New returns a supervisor that runs the given functions and nothing yet. A
// function that can't be run is refused with a [*FunctionError] that names
// every wrong field; all refusals are joined.
func New(options Options, functions ...Function) (*Supervisor, error) {
	if options.LogBytes == 0 {
		options.LogBytes = 1 << 20
	}
	if options.InitTimeout == 0 {
		options.InitTimeout = 10 * time.Second
	}
	if options.MaxSandboxes == 0 {
		options.MaxSandboxes = 100
	}
	s := &Supervisor{
		options: options, logs: newLineSink(options.Logs),
		pools: make(map[string]*pool), byKey: make(map[string]*sandbox),
	}
	var errs []error
	for _, f := range functions {
		errs = append(errs, s.Add(f))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}

	return s, nil
}

// Add makes one more function known. Its first sandbox starts with its first
// invocation. A name that is taken is refused with [ErrFunctionExists].
func (s *Supervisor) Add(f Function) error {
	f, err := f.normalise()
	if err != nil {
		return err
	}
	size, sum, err := describeCode(f.Path)
	if err != nil {
		return &FunctionError{Name: f.Name, Fields: []string{"path: " + err.Error()}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.pools[f.Name] != nil {
		return fmt.Errorf("%w: %q", ErrFunctionExists, f.Name)
	}
	s.pools[f.Name] = &pool{
		fn: f, log: newFunctionLog(f.Name, s.options.LogBytes, s.logs), made: time.Now(), size: size, sum: sum,
		revision: uuid.NewString(),
	}

	return nil
}

func (s *Supervisor) sortedPools() []*pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*pool, 0, len(s.pools))
	for _, p := range s.pools {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *pool) int {
		if a.fn.Name < b.fn.Name {
			return -1
		}

		return 1
	})

	return list
}

// Caller is the name of the function whose sandbox holds an access key id,
// empty if none does.
func (s *Supervisor) Caller(accessKeyID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sb := s.byKey[accessKeyID]; sb != nil {
		return sb.fn.Name
	}

	return ""
}

// Kill sends SIGKILL to every sandbox of a function that is running an
// invocation and returns, once they are dead, how many there were. Their
// invocations are answered with Runtime.ExitError.
func (s *Supervisor) Kill(function string) int {
	return s.kill(func(sb *sandbox) bool { return sb.fn.Name == function && sb.busy })
}

// KillByAccessKey sends SIGKILL to the sandbox that holds an access key id and
// returns, once it is dead, how many that were: one or none.
func (s *Supervisor) KillByAccessKey(accessKeyID string) int {
	return s.kill(func(sb *sandbox) bool { return sb.accessKey == accessKeyID })
}

func (s *Supervisor) kill(chosen func(*sandbox) bool) int {
	s.mu.Lock()
	var victims []*sandbox
	for _, sb := range s.byKey {
		if chosen(sb) {
			victims = append(victims, sb)
		}
	}
	s.mu.Unlock()
	for _, sb := range victims {
		sb.kill()
	}
	for _, sb := range victims {
		<-sb.exited
	}

	return len(victims)
}

// Logs returns the kept log lines of a function, oldest first; nil for a
// function that is not known.
func (s *Supervisor) Logs(function string) []LogLine {
	s.mu.Lock()
	p := s.pools[function]
	s.mu.Unlock()
	if p == nil {
		return nil
	}

	return p.log.lines()
}

// Close kills every sandbox and waits until all processes and invocations
// have ended. Invocations under way are answered with Runtime.ExitError,
// later ones with [ErrClosed].
func (s *Supervisor) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.kill(func(*sandbox) bool { return true })
	s.work.Wait()
}

// take hands out an idle sandbox or the place for a new one (nil).
func (s *Supervisor) take(p *pool) (*sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if n := len(p.idle); n > 0 {
		sb := p.idle[n-1]
		p.idle = p.idle[:n-1]
		sb.busy = true

		return sb, nil
	}
	if len(p.all) >= s.options.MaxSandboxes {
		return nil, throttled()
	}
	sb := newSandbox(p.fn, p.log)
	p.all = append(p.all, sb)

	return sb, nil
}

// register makes a started sandbox known by its key; false if the supervisor
// was closed meanwhile, which no longer waits for it then.
func (s *Supervisor) register(sb *sandbox) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.byKey[sb.accessKey] = sb

	return true
}

// give puts a sandbox that waits for its next invocation back.
func (s *Supervisor) give(p *pool, sb *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sb.busy = false
	select {
	case <-sb.exited:
	default:
		p.idle = append(p.idle, sb)
	}
}

// forget removes a sandbox whose process has ended.
func (s *Supervisor) forget(p *pool, sb *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, sb.accessKey)
	p.all = without(p.all, sb)
	p.idle = without(p.idle, sb)
}

func without(list []*sandbox, sb *sandbox) []*sandbox {
	return slices.DeleteFunc(list, func(have *sandbox) bool { return have == sb })
}
