package oncetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/middleware/once/oncetest"
)

type message struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

type sent struct {
	ID string `json:"id"`
}

func sendMessage(base string) once.Tool[message, sent] {
	client := &http.Client{Transport: &once.Transport{}} // adds the key, refuses to send late
	return once.Tool[message, sent]{
		Name: "send_message", Description: "Send a message to a customer.", Class: once.External,
		Permission: "messages:send", Timeout: 5 * time.Second,
		Downstream: once.Downstream{KeyWindow: 24 * time.Hour},
		Summary:    func(in message) string { return "to " + in.To }, // people see it; keep secrets out
		ExternalID: func(s sent) string { return s.ID },
		Run: func(ctx context.Context, in message) (out sent, err error) {
			body, err := json.Marshal(in)
			if err != nil {
				return out, once.NotAttempted(err)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/messages", bytes.NewReader(body))
			if err != nil {
				return out, once.NotAttempted(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				return out, err // it may have left: unmarked, so unknown
			}
			defer func() { _ = resp.Body.Close() }()
			switch {
			case resp.StatusCode == http.StatusUnprocessableEntity:
				return out, once.Rejected(errors.New("the receiver refuses this message"))
			case resp.StatusCode >= 300:
				return out, fmt.Errorf("the receiver says %s", resp.Status) // it may have landed
			}
			err = json.NewDecoder(resp.Body).Decode(&out)
			return out, err
		},
		ReconcileByKey: true,
		Reconcile: func(ctx context.Context, rec ledger.Record, _ message) (sent, bool, error) {
			return find(ctx, client, base, rec.Key)
		},
		CompensateByKey: true, // needs the record only, so nobody has to send the arguments
		Compensate: func(ctx context.Context, rec ledger.Record, _ message) error {
			found, ok, err := find(ctx, client, base, rec.Key) // an external id may be a person's word: look it up by key
			switch id := rec.Outcome.ExternalID; {
			case err != nil:
				return once.NotAttempted(errors.New("the receiver can't be asked"))
			case !ok:
				return once.Rejected(errors.New("nothing stands under this call's key; undo it by hand"))
			case id != "" && id != found.ID:
				return once.Rejected(errors.New("another message stands under this call's key than the record names; undo it by hand"))
			}
			return withdraw(ctx, client, base, found.ID)
		},
	}
}

// find looks up the message that stands under a call's key. It only reads.
func find(ctx context.Context, client *http.Client, base string, key ledger.Key) (out sent, found bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/messages?key="+url.QueryEscape(key.String()), http.NoBody)
	if err != nil {
		return out, false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return out, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		err = json.NewDecoder(resp.Body).Decode(&out)
		return out, err == nil, err
	case http.StatusNotFound:
		return out, false, nil
	}
	return out, false, fmt.Errorf("the receiver says %s", resp.Status) // nobody can tell
}

// withdraw takes a message back, under the key of the undo that ctx is of.
func withdraw(ctx context.Context, client *http.Client, base, id string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/messages/"+url.PathEscape(id)+"/withdraw", http.NoBody)
	if err != nil {
		return once.NotAttempted(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return once.Rejected(errors.New("the receiver refuses to withdraw it"))
	case resp.StatusCode >= 300:
		return fmt.Errorf("the receiver says %s", resp.Status)
	}
	return nil
}

func TestMessageKeepsItsContract(t *testing.T) {
	oncetest.AssertContract(t, func(r *oncetest.Receiver) once.Tool[message, sent] { return sendMessage(r.URL) }, message{To: "ada", Text: "hi"})
}

// The code on the page is the code above, line by line, so that it compiles and
// keeps its contract.
func TestCodeOnThePageOnGuardingAToolIsThatOfThisFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/howto/guard-a-tool.md")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("page_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 3 {
		t.Errorf("%d blocks of code", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(unindented(string(own)), unindented(block[1])) {
			t.Errorf("not in this file:\n%s", block[1])
		}
	}
}

// unindented is code without what stands before and after each line.
func unindented(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
