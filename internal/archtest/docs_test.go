package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readme returns the first page with its marks and line breaks taken out, so
// that a sentence is one text however it is set.
func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(strings.NewReplacer("**", "", "`", "").Replace(string(text))), " ")
}

func wantSentences(t *testing.T, patterns ...string) {
	t.Helper()
	text := readme(t)
	for _, p := range patterns {
		if !regexp.MustCompile(`(?i)` + p).MatchString(text) {
			t.Errorf("README.md does not say: %s", p)
		}
	}
}

var (
	exactlyOnce = regexp.MustCompile(`(?i)exactly-once|exactly once\b.*(deliver|effect|execut|semantics)|(deliver|effect|execut|semantics).*\bexactly once`)
	denied      = regexp.MustCompile(`(?i)\b(not|never|no|nobody|isn't|doesn't|can't)\b`)
)

// Wherever the words stand, in a page or a comment, their sentence denies them.
// Proves: R162
func TestNoPageClaimsExactlyOnceDelivery(t *testing.T) {
	t.Parallel()
	wantSentences(t, `Not exactly-once delivery\.`, `an effect that happens once, as far as the receiver lets it`)
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", ".git", ".local", "dist"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".md", ".go", ".yaml"}, filepath.Ext(path)) || filepath.Base(path) == "docs_test.go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for sentence := range strings.SplitSeq(strings.NewReplacer("\n//", " ", "\n", " ").Replace(string(text)), ".") {
			if !exactlyOnce.MatchString(sentence) {
				continue
			}
			found++
			if !denied.MatchString(sentence) {
				t.Errorf("%s claims it: %q", path, strings.TrimSpace(sentence))
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("found %d sentences, %v", found, err)
	}
}

// Proves: R163
func TestReadmeSaysThatTheReceiverMustHonourTheKeyOrBeQueryable(t *testing.T) {
	t.Parallel()
	wantSentences(t, `The receiver has to help: honour the key, or answer a look-up by it`)
}

// Proves: R164
func TestReadmeSaysThatOtherwiseOnlyAPersonCanSettle(t *testing.T) {
	t.Parallel()
	wantSentences(t, `With neither, the ledger still prevents repeats, but only a person can settle an unknown call`)
}

// Proves: R165
func TestReadmeWarnsOfRetryingAWorkflowStepFromOutside(t *testing.T) {
	t.Parallel()
	wantSentences(t, `Retrying a workflow step from outside starts a fresh run with new keys\. Do that only for tools that read, or that can be reconciled`)
}

// Proves: R166
func TestReadmeSaysThatAFreshCallIsADifferentKey(t *testing.T) {
	t.Parallel()
	wantSentences(t, `A fresh call from the model is a different key`)
}

// Proves: R168
func TestReadmeSaysThatWrittenIntentOnlyNarrowsTheWindow(t *testing.T) {
	t.Parallel()
	wantSentences(t, `Intent that is written down narrows the crash window; it can't close it`)
}

// Proves: R169
func TestReadmeSaysThatAModelsFallbackProtectsNoTool(t *testing.T) {
	t.Parallel()
	wantSentences(t, `A fallback to another model protects no tool`)
}

// Proves: R170
func TestReadmeStatesMaturityAndWhatRecoveryCovers(t *testing.T) {
	t.Parallel()
	wantSentences(t, `Maturity: `, `Recovery across processes is covered for .+, by tests with real processes`, `it has not run on AWS yet`, `drivers that take a run over`, `docs/promise\.md`)
}

// Proves: R167
func TestReadmeStatesTheCost(t *testing.T) {
	t.Parallel()
	wantSentences(t, `It costs two DynamoDB writes for each guarded call`, `a key to design for each receiver`, `errors to classify`)
}
