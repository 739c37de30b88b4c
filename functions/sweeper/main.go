// Command sweeper is the Lambda function that a schedule invokes, and the end of
// every execution that failed: it does what nobody is left to do about calls and
// runs, and lists what needs somebody.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/onceward/onceward/internal/startup"
)

func main() {
	lambda.Start(startup.Must(newFunction(context.Background(), os.Getenv, os.Stdout)))
}
