package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/lambda"
	"github.com/onceward/onceward/localstack/plain/machine"
)

// functionTimeout is at least join + tool timeout + two settle reserves of any
// tool here. The operator's look-ups wait for a tool, so it has more, though not
// more than API Gateway waits; the sweeper goes through all that is unsettled.
const (
	functionTimeout = 20 * time.Second
	operatorTimeout = 29 * time.Second
	sweeperTimeout  = time.Minute
)

func timeoutOf(name string) time.Duration {
	switch name {
	case names.Operator:
		return operatorTimeout
	case names.Sweeper:
		return sweeperTimeout
	}
	return functionTimeout
}

type tool struct {
	Function string `json:"function"`
	Class    string `json:"class"`
}

// addFunctions builds the functions and makes them known to the supervisor. The
// tools' own manifest says which tool is where, as a deployment would be told.
func (s *Stack) addFunctions(ctx context.Context) error {
	built, err := build(ctx, s.options)
	if err != nil {
		return err
	}
	env := map[string]string{
		names.EnvStage:   Stage,
		names.EnvTable:   s.Names.Table,
		names.EnvBilling: s.BillingURL,
		names.EnvClient:  BillingClient,
	}
	if err := s.Lambda.Add(lambda.Function{Name: machine.Function, Path: built[machine.Function], Env: env, Timeout: functionTimeout}); err != nil {
		return err
	}
	if err := s.add(names.BillingTools, built, env); err != nil {
		return err
	}
	tools, err := s.describe(ctx, s.Names.Function(names.BillingTools))
	if err != nil {
		return err
	}
	text, err := json.Marshal(tools)
	if err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	env[names.EnvTools] = string(text)
	env[names.EnvMachine] = MachineARN(s.Names.Machine)
	for _, name := range names.Functions() {
		if name == names.BillingTools {
			continue // it is there
		}
		if err := s.add(name, built, env); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) add(name string, built, env map[string]string) error {
	return s.Lambda.Add(lambda.Function{Name: s.Names.Function(name), Path: built[name], Env: env, Timeout: timeoutOf(name), MemoryMB: 256})
}

func (s *Stack) describe(ctx context.Context, function string) (map[string]tool, error) {
	result, err := s.Lambda.Invoke(ctx, lambda.Invocation{Function: function, Payload: []byte(`{"onceward":1,"mode":"describe"}`)})
	if err != nil {
		return nil, fmt.Errorf("stack: describe %s: %w", function, err)
	}
	var manifest struct {
		Tools []struct {
			Name  string `json:"name"`
			Class string `json:"effect"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(result.Payload, &manifest); err != nil || len(manifest.Tools) == 0 {
		return nil, fmt.Errorf("stack: describe %s: not a manifest: %s", function, result.Payload)
	}
	tools := map[string]tool{}
	for _, t := range manifest.Tools {
		tools[t.Name] = tool{Function: function, Class: t.Class}
	}
	return tools, nil
}
