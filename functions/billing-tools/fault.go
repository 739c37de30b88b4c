package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"regexp"
	"slices"

	"github.com/aws/smithy-go"

	"github.com/onceward/onceward/middleware/ledger"
)

// storeFaults are the codes of answers that the ledger could not be asked or told.
var storeFaults = []string{"store_unavailable", "corrupt_record", "not_recorded"}

// faultOf says why the ledger failed: the error's class and AWS's code for it,
// never its text, which may repeat what was sent. It says nothing of other
// answers, whose error is the tool's own.
func faultOf(code string, err error) []slog.Attr {
	if err == nil || !slices.Contains(storeFaults, code) {
		return nil
	}
	attrs := []slog.Attr{slog.String("error_class", classOf(err))}
	if api, ok := errors.AsType[smithy.APIError](err); ok && plainWord.MatchString(api.ErrorCode()) {
		attrs = append(attrs, slog.String("aws_error_code", api.ErrorCode()))
	}
	return attrs
}

// plainWord is what AWS's codes look like; any other text is not repeated.
var plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.]{0,63}$`)

func classOf(err error) string {
	if errors.Is(err, ledger.ErrCorrupt) {
		return "corrupt_item"
	}
	if _, ok := errors.AsType[smithy.APIError](err); ok {
		return "aws" // an answer, whatever came of the time
	}
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout() {
		return "timeout"
	}
	if errors.Is(err, context.Canceled) {
		return "canceled"
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return "network"
	}
	return "other"
}
