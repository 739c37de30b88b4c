// Command planner is the Lambda function that the state machine asks what a run
// does next. It stores what it says before it says it, so it may be asked again
// after any loss.
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
