// Command call-desk is the Lambda function that reads the ledger for the state
// machine when an answer was lost or proves nothing, and that keeps the task
// tokens of parked runs. It runs no tool.
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
