// Command operator is the Lambda function behind the operator's API: it answers
// events of an API Gateway HTTP API (payload format 2.0) whose JWT authorizer
// says who asks.
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
