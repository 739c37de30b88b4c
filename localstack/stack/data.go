package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/localstack/dynamodb"
	"github.com/onceward/onceward/localstack/filelock"
)

// layoutVersion is of what a stack keeps and where. Raise it when an older
// stack's data can't be read as it lies there.
const layoutVersion = 1

// externalEngine stands for an engine that the stack did not start and whose
// data is its own business.
const externalEngine = "external"

const (
	layoutName = "layout.json"
	lockName   = "lock"
)

// ErrDataInUse means that another stack uses the data directory.
var ErrDataInUse = errors.New("stack: another stack is using this data directory")

// ErrDataLayout means that a data directory can't be used as it is: it is
// somebody else's, of another version, or of another DynamoDB engine.
var ErrDataLayout = errors.New("stack: this data directory can't be used")

// layout is the content of layout.json, which makes a directory a stack's own.
type layout struct {
	Layout int    `json:"layout"`
	Engine string `json:"engine"` // dynoxide, dynalite or external
}

// data is where a running stack keeps its data: below a directory that it has
// locked, or, with no such directory, in memory and a temporary one.
type data struct {
	dir  string
	kept bool
	lock *os.File // nil unless kept
}

// temporary makes a directory for a stack that keeps nothing.
func temporary() (*data, error) {
	dir, err := os.MkdirTemp("", "onceward-")
	if err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	return &data{dir: dir}, nil
}

// openData takes dir for a stack that uses engine. It makes what is missing and
// changes nothing when it refuses.
func openData(dir, engine string) (*data, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("stack: data directory: %w", err)
	}
	if err := ours(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("stack: data directory: %w", err)
	}
	// It may have been there, with more rights for others: it holds task tokens
	// and what the tools were asked to do.
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs its x
		return nil, fmt.Errorf("stack: data directory: %w", err)
	}
	lock, err := takeLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, dir)
	}
	d := &data{dir: dir, kept: true, lock: lock}
	if err := d.settle(engine); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// ours refuses a directory with content that no stack has made.
func ours(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stack: data directory: %w", err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == layoutName }) {
		return nil
	}
	for _, entry := range entries {
		switch entry.Name() {
		case lockName, layoutName + ".new": // as far as a first start got before it was killed
		default:
			return fmt.Errorf("%w: %s holds %s, which no stack has put there: choose a directory that is empty or does not exist", ErrDataLayout, dir, entry.Name())
		}
	}
	return nil
}

// takeLock locks the file for as long as it is open and says in it who has it.
func takeLock(name string) (*os.File, error) {
	file, err := filelock.Take(name)
	switch {
	case errors.Is(err, filelock.ErrHeld):
		text, _ := os.ReadFile(name) // who has it is a courtesy
		return nil, fmt.Errorf("%w: process %s; stop it or choose another directory", ErrDataInUse, strings.TrimSpace(string(text)))
	case err != nil:
		return nil, fmt.Errorf("stack: locking the data directory: %w", err)
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stack: data directory: %w", err), file.Close())
	}
	return file, nil
}

// settle checks the layout of a locked directory or, if it is new, writes it.
func (d *data) settle(engine string) error {
	name := filepath.Join(d.dir, layoutName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		// Stored with the rename: that the directory is a stack's. If we stop
		// before it, the next start finds no layout and begins anew.
		return writeLayout(name, layout{Layout: layoutVersion, Engine: engine})
	}
	if err != nil {
		return fmt.Errorf("stack: data directory: %w", err)
	}
	var found layout
	if err := json.Unmarshal(text, &found); err != nil || found.Layout < 1 {
		return fmt.Errorf("%w: %s is not what a stack writes: choose another directory, or remove this one to start over", ErrDataLayout, name)
	}
	switch {
	case found.Layout > layoutVersion:
		return fmt.Errorf("%w: %s was written by a newer version of this program (layout %d, this one knows %d): use that version, or another directory", ErrDataLayout, d.dir, found.Layout, layoutVersion)
	case found.Layout < layoutVersion:
		return fmt.Errorf("%w: %s was written by an older version of this program (layout %d, this one needs %d): use that version, or remove the directory to start over", ErrDataLayout, d.dir, found.Layout, layoutVersion)
	case found.Engine != engine:
		return fmt.Errorf("%w: %s belongs to the DynamoDB engine %s, not %s: choose that engine or another directory", ErrDataLayout, d.dir, engineText(found.Engine), engineText(engine))
	}
	return nil
}

func engineText(engine string) string {
	if engine == externalEngine {
		return "that runs elsewhere (--dynamodb URL)"
	}
	return engine + " (--engine " + engine + ")"
}

func writeLayout(name string, l layout) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("stack: data directory: %w", err)
	}
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("stack: data directory: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("stack: data directory: %w", err)
	}
	return nil
}

// billing is the billing service's database.
func (d *data) billing() string { return filepath.Join(d.dir, "billing.db") }

// journal is the directory of the runner's journal; empty keeps executions in
// memory.
func (d *data) journal() string {
	if !d.kept {
		return ""
	}
	return filepath.Join(d.dir, "stepfunctions")
}

// engine is what the engine of that kind keeps its data in, or empty for memory.
func (d *data) engine(kind dynamodb.Kind) (string, error) {
	if !d.kept {
		return "", nil
	}
	dir := filepath.Join(d.dir, "dynamodb")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("stack: data directory: %w", err)
	}
	return filepath.Join(dir, string(kind)), nil
}

// close lets another stack use what was kept and removes what was not.
func (d *data) close(context.Context) error {
	if d.kept {
		return d.lock.Close()
	}
	return os.RemoveAll(d.dir)
}
