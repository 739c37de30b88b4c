// Package statemachines holds the definition of the run's state machine and the
// safety rules over such definitions. AgentRun is the one source that the
// infrastructure, the local runner and the tests read; Check says what a
// definition could do to an effect. It runs nothing and speaks to no AWS
// service. Start with README.md, which is the planner's contract.
package statemachines

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

//go:generate go run ./referencepage ../docs/reference/agent-run.md

//go:embed agent-run.asl.json
var agentRun string

// Errors of Substitute.
var (
	// ErrPlaceholderMissing means that the definition has a placeholder for
	// which there is no value; nothing was substituted.
	ErrPlaceholderMissing = errors.New("statemachines: placeholder without a value")
	// ErrPlaceholderUnknown means that there is a value for a placeholder that
	// the definition doesn't have; nothing was substituted.
	ErrPlaceholderUnknown = errors.New("statemachines: value for an unknown placeholder")
)

var placeholder = regexp.MustCompile(`\$\{([^{}]*)\}`)

// AgentRun returns a copy of the source of agent-run.asl.json, placeholders
// included.
func AgentRun() []byte { return []byte(agentRun) }

// Placeholders returns the names that stand as ${Name} in def, sorted, each once.
func Placeholders(def []byte) []string {
	found := map[string]bool{}
	for _, m := range placeholder.FindAllSubmatch(def, -1) {
		found[string(m[1])] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// Substitute returns def with each ${Name} replaced by values[Name], escaped for
// the JSON string that it stands in. A missing, empty or unknown value is
// refused, all of them in one error that wraps ErrPlaceholderMissing or
// ErrPlaceholderUnknown: a machine with a wrong function would ask nobody.
func Substitute(def []byte, values map[string]string) ([]byte, error) {
	if err := checkValues(Placeholders(def), values); err != nil {
		return nil, err
	}
	// One pass, so that a value that contains ${…} isn't substituted again.
	return placeholder.ReplaceAllFunc(def, func(m []byte) []byte {
		quoted, err := json.Marshal(values[string(m[2:len(m)-1])])
		if err != nil { // a string always encodes
			panic(err)
		}
		return quoted[1 : len(quoted)-1]
	}), nil
}

func checkValues(wanted []string, values map[string]string) error {
	var errs []error
	var missing, unknown []string
	for _, name := range wanted {
		if values[name] == "" {
			missing = append(missing, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(wanted, name) {
			unknown = append(unknown, name)
		}
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("%w: %s", ErrPlaceholderMissing, strings.Join(missing, ", ")))
	}
	if len(unknown) > 0 {
		errs = append(errs, fmt.Errorf("%w: %s", ErrPlaceholderUnknown, strings.Join(unknown, ", ")))
	}
	return errors.Join(errs...)
}
