package lambda

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// Account is the AWS account that every function belongs to.
	Account = "000000000000"
	// Region is the AWS region that every function is in.
	Region = "us-east-1"
	// latest is the only version a function here has.
	latest = "$LATEST"
)

// Function describes one function to run.
type Function struct {
	// Name is 1-64 of A-Za-z0-9_-.
	Name string
	// Path is the bootstrap binary, or the directory that holds one of that name.
	Path string
	// Env is added to the environment of its sandboxes. Names that Lambda
	// reserves are refused.
	Env map[string]string
	// Timeout bounds an invocation; zero means 3 s, the most is 15 min.
	Timeout time.Duration
	// MemoryMB is what the function is told it has, 128 to 10240; zero means
	// 128. It is not enforced.
	MemoryMB int
	// Aliases are further qualifiers under which the function can be invoked.
	Aliases []string
}

// ErrFunctionExists means that a function of this name was added before.
var ErrFunctionExists = errors.New("lambda: a function of this name exists")

// FunctionError says why a [Function] was refused: every wrong field.
type FunctionError struct {
	Name   string
	Fields []string
}

// Error lists the wrong fields.
func (e *FunctionError) Error() string {
	return fmt.Sprintf("lambda: function %q refused: %s", e.Name, strings.Join(e.Fields, "; "))
}

var (
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	aliasPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	envPattern   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
)

// reserved are the variables that Lambda sets itself and refuses in a
// function's own environment.
var reserved = []string{
	"AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_EXECUTION_ENV", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
	"AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_VERSION", "AWS_LAMBDA_INITIALIZATION_TYPE",
	"AWS_LAMBDA_LOG_GROUP_NAME", "AWS_LAMBDA_LOG_STREAM_NAME", "AWS_LAMBDA_MAX_CONCURRENCY", "AWS_LAMBDA_RUNTIME_API",
	"AWS_REGION", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "LAMBDA_RUNTIME_DIR", "LAMBDA_TASK_ROOT", "_HANDLER",
	"_X_AMZN_TRACE_ID",
}

// normalise fills the defaults in, finds the bootstrap and reports every wrong
// field in one [*FunctionError].
func (f Function) normalise() (Function, error) {
	bad := &FunctionError{Name: f.Name}
	if !namePattern.MatchString(f.Name) {
		bad.add("name: must be 1-64 of A-Za-z0-9_-")
	}
	if f.Timeout == 0 {
		f.Timeout = 3 * time.Second
	}
	if f.Timeout < 0 || f.Timeout > 15*time.Minute {
		bad.add("timeout: must be above zero and at most 15 minutes")
	}
	if f.MemoryMB == 0 {
		f.MemoryMB = 128
	}
	if f.MemoryMB < 128 || f.MemoryMB > 10240 {
		bad.add("memory: must be from 128 to 10240 MB")
	}
	for _, alias := range f.Aliases {
		if !aliasPattern.MatchString(alias) {
			bad.add("aliases: %q must be 1-128 of A-Za-z0-9_-", alias)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Env)) {
		switch {
		case slices.Contains(reserved, name):
			bad.add("env: %s is set by Lambda", name)
		case !envPattern.MatchString(name):
			bad.add("env: %q is no name of a variable", name)
		case strings.ContainsRune(f.Env[name], 0):
			bad.add("env: the value of %s holds a NUL", name)
		}
	}
	path, err := findBootstrap(f.Path)
	if err != nil {
		bad.add("path: %v", err)
	}
	f.Path, f.Env, f.Aliases = path, maps.Clone(f.Env), slices.Clone(f.Aliases)
	if len(bad.Fields) > 0 {
		return f, bad
	}
	return f, nil
}

func (e *FunctionError) add(format string, args ...any) {
	e.Fields = append(e.Fields, fmt.Sprintf(format, args...))
}

// findBootstrap returns the absolute path of an executable file.
func findBootstrap(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, "bootstrap")
		info, err = os.Stat(path)
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return "", fmt.Errorf("%s is no executable file", path)
	}
	return path, nil
}

// ARN is the function's name as Step Functions definitions and clients write it.
func (f Function) ARN() string {
	return "arn:aws:lambda:" + Region + ":" + Account + ":function:" + f.Name
}

// serves reports whether the function can be invoked under a qualifier.
func (f Function) serves(qualifier string) bool {
	return qualifier == "" || qualifier == latest || slices.Contains(f.Aliases, qualifier)
}
