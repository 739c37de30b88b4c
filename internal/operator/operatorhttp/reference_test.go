package operatorhttp_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/operator/operatorhttp"
)

func TestGeneratedPagesAreUpToDate(t *testing.T) {
	t.Parallel()
	openapi, err := operatorhttp.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]byte{"openapi.yaml": openapi, "problems.md": operatorhttp.Problems()} {
		got, err := os.ReadFile("../../../docs/reference/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is not what the code says; run go generate ./internal/operator/...", file)
		}
	}
}

func TestTheServedDocumentIsTheGeneratedOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	want, err := operatorhttp.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if w := d.send(t, http.MethodGet, "/openapi.yaml", ""); !bytes.Equal(w.Body.Bytes(), want) {
		t.Error("served and generated documents differ")
	}
	w := d.send(t, http.MethodGet, "/openapi.json", "")
	if !strings.Contains(w.Body.String(), `"openapi":"3.1.0"`) || w.Header().Get("Content-Type") != "application/openapi+json" {
		t.Errorf("%s: %.80s", w.Header().Get("Content-Type"), w.Body)
	}
	for _, word := range []string{"ErrorModel", "$schema"} {
		if bytes.Contains(want, []byte(word)) {
			t.Errorf("the document speaks of %s", word)
		}
	}
}

func TestTheStatusFilterOffersWhatTheLedgerHas(t *testing.T) {
	t.Parallel()
	document, err := operatorhttp.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(string(document), "name: status")
	_, enum, _ := strings.Cut(query, "enum:")
	enum, _, _ = strings.Cut(enum, "type:")
	var offered []string
	for line := range strings.Lines(enum) {
		if word := strings.Trim(line, " -\n"); word != "" {
			offered = append(offered, word)
		}
	}
	if got, want := strings.Join(offered, ","), strings.Join(operator.Listed(), ","); got != want {
		t.Errorf("offered %s, want %s", got, want)
	}
}

func TestEveryCodeIsListedOnceWithItsMeaning(t *testing.T) {
	t.Parallel()
	seen := make(map[operator.Code]bool)
	last := 0
	for _, info := range operator.Codes() {
		if seen[info.Code] || info.Title == "" || info.Means == "" || info.Status < last || http.StatusText(info.Status) == "" {
			t.Errorf("%+v", info)
		}
		seen[info.Code], last = true, info.Status
		if p := operator.NewProblem(info.Code, "", nil); p.Status != info.Status || p.Code != info.Code {
			t.Errorf("problem %+v of %+v", p, info)
		}
	}
	if p := operator.NewProblem("made_up", "", nil); p.Code != operator.Internal {
		t.Errorf("an unknown code became %s", p.Code)
	}
}
