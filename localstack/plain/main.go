// Command plain is the tool that most people would write first: a Lambda
// function that pays and has no guard, no key and no ledger. The demo runs it
// under the retries that CDK gives to every Lambda task, to show what a lost
// answer costs then. It shares nothing with Onceward and must not be copied.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
)

type credit struct {
	AccountID   string `json:"account_id"`
	AmountCents int64  `json:"amount_cents"`
}

func main() {
	lambda.Start(func(ctx context.Context, in credit) (json.RawMessage, error) {
		client := &http.Client{Timeout: 5 * time.Second}
		session, err := post(ctx, client, "/sessions", "", map[string]string{"client_id": os.Getenv("BILLING_CLIENT"), "account_id": in.AccountID})
		if err != nil {
			return nil, err
		}
		var token struct {
			Token string `json:"token"`
		}
		if err := json.Unmarshal(session, &token); err != nil {
			return nil, fmt.Errorf("sign in: %w", err)
		}
		return post(ctx, client, "/credits", token.Token, in)
	})
}

func post(ctx context.Context, client *http.Client, path, token string, in any) (out json.RawMessage, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("BILLING_URL")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("billing says %s", resp.Status)
	}
	return out, json.NewDecoder(resp.Body).Decode(&out)
}
