package lambda

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
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
	// Concurrency is how many invocations of one function may be under way or
	// wait for a sandbox; zero means 1000. Those beyond it are throttled with
	// TooManyRequestsException, as on AWS.
	Concurrency int
	// MaxSandboxes bounds the processes of one function; zero means eight for
	// each CPU, at least 16: more would only take time from each other.
	// Invocations beyond it wait until one is free, before their time begins.
	MaxSandboxes int
	// MaxStarting bounds how many sandboxes, of all functions, start at the same
	// time, so that a burst of cold starts does not starve itself; zero means two
	// for each CPU. An invocation that waits for its turn takes whatever sandbox
	// is free first.
	MaxStarting int
	// IdleTimeout is how long a sandbox waits for its next invocation before it
	// is killed; zero means 5 min.
	IdleTimeout time.Duration
}

// Supervisor runs functions. It is safe for concurrent use. Close it, or its
// processes live until this one ends.
type Supervisor struct {
	options Options
	logs    *lineSink

	work sync.WaitGroup // sandboxes and invocations

	mu       sync.Mutex
	changed  *sync.Cond // a sandbox became free or ended, a start ended, or all is closed
	pools    map[string]*pool
	byKey    map[string]*sandbox
	starting int
	closed   bool
}

// pool is a function with its sandboxes, guarded by the supervisor's lock.
type pool struct {
	fn   Function
	log  *functionLog
	all  []*sandbox
	idle []*sandbox // the one used last is last
	busy int        // invocations under way or waiting
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
	options.LogBytes = cmp.Or(options.LogBytes, 1<<20)
	options.InitTimeout = cmp.Or(options.InitTimeout, 10*time.Second)
	options.Concurrency = cmp.Or(options.Concurrency, 1000)
	options.MaxSandboxes = cmp.Or(options.MaxSandboxes, max(16, 8*runtime.NumCPU()))
	options.MaxStarting = cmp.Or(options.MaxStarting, 2*runtime.NumCPU())
	options.IdleTimeout = cmp.Or(options.IdleTimeout, 5*time.Minute)
	s := &Supervisor{
		options: options, logs: newLineSink(options.Logs),
		pools: make(map[string]*pool), byKey: make(map[string]*sandbox),
	}
	s.changed = sync.NewCond(&s.mu)
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
	var dying sync.WaitGroup
	for _, sb := range victims {
		dying.Go(sb.kill)
	}
	dying.Wait()
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
	s.changed.Broadcast()
	s.mu.Unlock()
	s.kill(func(*sandbox) bool { return true })
	s.work.Wait()
}

// enter counts an invocation in, or throttles it. Each that is counted in must
// leave.
func (s *Supervisor) enter(p *pool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if p.busy >= s.options.Concurrency {
		return throttled()
	}
	p.busy++
	s.work.Add(1)
	return nil
}

func (s *Supervisor) leave(p *pool) {
	s.mu.Lock()
	p.busy--
	s.mu.Unlock()
	s.work.Done()
}

// take hands out an idle sandbox or, when it is its turn, a new one that is not
// started yet; the taker of such a one must tell that its start has ended.
func (s *Supervisor) take(p *pool) (*sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed {
		if n := len(p.idle); n > 0 {
			sb := p.idle[n-1]
			p.idle = p.idle[:n-1]
			sb.busy = true
			sb.reaper.Stop()
			return sb, nil
		}
		if len(p.all) < s.options.MaxSandboxes && s.starting < s.options.MaxStarting {
			s.starting++
			sb := newSandbox(p.fn, p.log)
			p.all = append(p.all, sb)
			return sb, nil
		}
		s.changed.Wait()
	}
	return nil, ErrClosed
}

func (s *Supervisor) startEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
	s.changed.Broadcast()
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
		sb.idleSince = time.Now()
		sb.reaper = time.AfterFunc(s.options.IdleTimeout, func() { s.reap(p, sb) })
	}
	s.changed.Broadcast()
}

// reap kills a sandbox that nobody has used for long. One that was taken in this
// very moment, and perhaps given back, lives on.
func (s *Supervisor) reap(p *pool, sb *sandbox) {
	s.mu.Lock()
	unused := slices.Contains(p.idle, sb) && time.Since(sb.idleSince) >= s.options.IdleTimeout
	if unused {
		p.idle = without(p.idle, sb)
	}
	s.mu.Unlock()
	if unused {
		sb.kill()
	}
}

// forget removes a sandbox whose process has ended.
func (s *Supervisor) forget(p *pool, sb *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sb.reaper != nil {
		sb.reaper.Stop()
	}
	delete(s.byKey, sb.accessKey)
	p.all = without(p.all, sb)
	p.idle = without(p.idle, sb)
	s.changed.Broadcast()
}

func without(list []*sandbox, sb *sandbox) []*sandbox {
	return slices.DeleteFunc(list, func(have *sandbox) bool { return have == sb })
}
