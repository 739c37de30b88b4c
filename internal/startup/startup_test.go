package startup

import (
	"strings"
	"testing"
	"time"
)

func TestMissingSettingIsNamed(t *testing.T) {
	t.Parallel()
	env := map[string]string{"A": "1"}
	got, err := Setting(func(name string) string { return env[name] }, "A")
	if got != "1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Setting(func(name string) string { return env[name] }, "B"); err == nil || !strings.Contains(err.Error(), "B is not set") {
		t.Errorf("%v", err)
	}
}

func TestMustPassesOnWhatIsRight(t *testing.T) {
	t.Parallel()
	if Must(7, nil) != 7 {
		t.Error("another value")
	}
}

func TestEachTryOfARequestIsBounded(t *testing.T) {
	t.Parallel()
	cfg, err := AWS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, ok := cfg.HTTPClient.(interface{ GetTimeout() time.Duration })
	if !ok || client.GetTimeout() <= 0 || client.GetTimeout() > 5*time.Second {
		t.Errorf("its HTTP client is %T", cfg.HTTPClient)
	}
}
