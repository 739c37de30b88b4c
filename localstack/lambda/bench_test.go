package lambda_test

import (
	"os"
	"testing"

	"github.com/onceward/onceward/localstack/lambda"
)

func BenchmarkInvoke(b *testing.B) {
	path, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	s, err := lambda.New(lambda.Options{}, lambda.Function{Name: "f", Path: path, Env: map[string]string{programVariable: "function"}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	call := func(do string) lambda.Result {
		result, err := s.Invoke(b.Context(), lambda.Invocation{Function: "f", Payload: []byte(`{"do":"` + do + `"}`)})
		if err != nil {
			b.Fatal(err)
		}
		return result
	}
	b.Run("warm", func(b *testing.B) {
		call("")
		for b.Loop() {
			if r := call(""); r.FunctionError != "" {
				b.Fatalf("%s", r.Payload)
			}
		}
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			if r := call("exit 0"); r.FunctionError == "" { // leaves no sandbox to reuse
				b.Fatalf("%s", r.Payload)
			}
		}
	})
}
