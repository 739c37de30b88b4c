package startup

import (
	"strings"
	"testing"
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
