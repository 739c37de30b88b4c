// Command billing-tools is the Lambda function that serves the example's tools:
// find_order reads, issue_credit pays and can be undone, close_account ends an
// account for good. All are guarded, so that a credit that was paid is not paid
// again and one that was voided not voided again.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/onceward/onceward/internal/startup"
)

func main() {
	lambda.Start(startup.Must(newHandler(context.Background(), os.Getenv, os.Stdout)))
}
