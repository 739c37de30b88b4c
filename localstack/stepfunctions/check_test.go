package stepfunctions

import (
	"errors"
	"testing"
)

func wantAPIError(t *testing.T, err error, code string) {
	t.Helper()
	got, ok := errors.AsType[*APIError](err)
	if !ok || got.Type != code {
		t.Errorf("got error %v, want %s", err, code)
	}
}
