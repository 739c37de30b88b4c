package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

func TestALineSaysWhyTheStoreFailedAndNothingOfItsText(t *testing.T) {
	t.Parallel()
	const secret = "CANARY secret"
	answer := func(code string) error {
		return fmt.Errorf("load %s: %w", secret, &smithy.GenericAPIError{Code: code, Message: secret})
	}
	for name, tt := range map[string]struct {
		code        string
		err         error
		class, word string
	}{
		"throttled":         {"store_unavailable", answer("ThrottlingException"), "aws", "ThrottlingException"},
		"a code with words": {"store_unavailable", answer(secret), "aws", ""},
		"no time":           {"not_recorded", fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), "timeout", ""},
		"given up":          {"store_unavailable", fmt.Errorf("%s: %w", secret, context.Canceled), "canceled", ""},
		"no connection":     {"not_recorded", fmt.Errorf("%s: %w", secret, &net.OpError{Op: "dial", Err: errors.New(secret)}), "network", ""},
		"corrupt":           {"corrupt_record", fmt.Errorf("%s: %w", secret, ledger.ErrCorrupt), "corrupt_item", ""},
		"something else":    {"store_unavailable", errors.New(secret), "other", ""},
		"no error":          {"store_unavailable", nil, "", ""},
		"the tool's own":    {"outcome_unknown", answer("ThrottlingException"), "", ""},
		"refused":           {"bad_arguments", errors.New(secret), "", ""},
	} {
		var text bytes.Buffer
		_, end := logged(slog.New(slog.NewJSONHandler(&text, nil)))(t.Context(), once.Call{})
		end(once.Report{Code: tt.code}, tt.err)
		var line struct {
			Class string `json:"error_class"`
			Word  string `json:"aws_error_code"`
		}
		if err := json.Unmarshal(text.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Class != tt.class || line.Word != tt.word || strings.Contains(text.String(), "CANARY") {
			t.Errorf("%s: %s", name, &text)
		}
	}
}
