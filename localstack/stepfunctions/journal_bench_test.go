package stepfunctions

import (
	"context"
	"strconv"
	"sync"
	"testing"
)

// BenchmarkHundredExecutionsAtOnce tells what the journal costs.
func BenchmarkHundredExecutionsAtOnce(b *testing.B) {
	for name, keep := range map[string]bool{"in memory": false, "with a journal": true} {
		b.Run(name, func(b *testing.B) {
			invoker := invokerFunc(func(context.Context, Invocation) (Invoked, error) { return answerJSON(`{"ok":true}`) })
			for b.Loop() {
				options := &Options{}
				if keep {
					options.Data = b.TempDir()
				}
				r, err := New(invoker, options)
				if err != nil {
					b.Fatal(err)
				}
				runHundred(b, r)
				if err := r.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type invokerFunc func(ctx context.Context, call Invocation) (Invoked, error)

func (f invokerFunc) Invoke(ctx context.Context, call Invocation) (Invoked, error) {
	return f(ctx, call)
}

func runHundred(b *testing.B, r *Runner) {
	b.Helper()
	machine, err := r.CreateStateMachine(CreateStateMachineInput{Name: "m", Definition: mapOver("", ""), RoleARN: testRole})
	if err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			out, err := r.StartExecution(StartExecutionInput{StateMachineARN: machine.StateMachineARN, Name: new("e" + strconv.Itoa(n)), Input: new(numbers(10))})
			if err != nil {
				b.Error(err)
				return
			}
			r.mu.Lock()
			x := r.executions[out.ExecutionARN]
			r.mu.Unlock()
			<-x.stop
		})
	}
	all.Wait()
}
