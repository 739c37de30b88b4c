// Command testtools is a Lambda function for the system tests: its tools do what
// their arguments say, within a fraction of a second, and their settings differ.
// So each move of the ledger's table can be made from outside, through the
// guard, the function and the store that are shipped.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/onceward/onceward/internal/startup"
)

func main() { lambda.Start(startup.Must(newHandler(context.Background(), os.Getenv))) }
