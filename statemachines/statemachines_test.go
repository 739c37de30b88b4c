package statemachines

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/names"
)

func substituted(t *testing.T) []byte {
	t.Helper()
	def, err := Substitute(AgentRun(), map[string]string{
		names.PlannerFunction:  "arn:aws:lambda:eu-west-1:111122223333:function:planner",
		names.CallDeskFunction: "arn:aws:lambda:eu-west-1:111122223333:function:call-desk",
	})
	if err != nil {
		t.Fatal(err)
	}
	return def
}

func TestPlaceholdersAreTheOnesThatInfrastructureFills(t *testing.T) {
	t.Parallel()
	want := []string{names.CallDeskFunction, names.PlannerFunction}
	if diff := cmp.Diff(want, Placeholders(AgentRun())); diff != "" {
		t.Error(diff)
	}
}

// Nothing in the machine asks a tool again after an unknown outcome, widens a
// tool's retries or asks for an undo.
//
// Proves: R29, R58, R113, R115
func TestShippedDefinitionBreaksNoRule(t *testing.T) {
	t.Parallel()
	for _, def := range [][]byte{AgentRun(), substituted(t)} {
		for _, f := range CheckDeployed("STANDARD", def) {
			t.Error(f)
		}
	}
}

func TestExpressMachineIsFound(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"EXPRESS", "", "standard"} {
		if diff := cmp.Diff([]string{"inline-standard"}, rulesOf(CheckDeployed(kind, AgentRun()))); diff != "" {
			t.Errorf("type %q: %s", kind, diff)
		}
	}
}

func TestCallersCannotChangeTheEmbeddedDefinition(t *testing.T) {
	t.Parallel()
	AgentRun()[0] = 'x'
	Rules()[0].find = nil
	HandlerNotEntered()[0].Name = "x"
	OwnErrors()[0].Name = "x"
	if found := Check(AgentRun()); len(found) > 0 {
		t.Error(found)
	}
}

func TestSubstituteRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	def := []byte(`{"a": "${One}", "b": "${Two}", "c": "${One}"}`)
	for name, c := range map[string]struct {
		values map[string]string
		want   []error
		says   string
	}{
		"missing":         {map[string]string{"One": "1"}, []error{ErrPlaceholderMissing}, "Two"},
		"empty":           {map[string]string{"One": "1", "Two": ""}, []error{ErrPlaceholderMissing}, "Two"},
		"unknown":         {map[string]string{"One": "1", "Two": "2", "Three": "3"}, []error{ErrPlaceholderUnknown}, "Three"},
		"missing and odd": {map[string]string{"Tow": "2"}, []error{ErrPlaceholderMissing, ErrPlaceholderUnknown}, "One, Two"},
		"none at all":     {nil, []error{ErrPlaceholderMissing}, "One, Two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := Substitute(def, c.values)
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("error %v is not %v", err, want)
				}
			}
			if out != nil || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %s, %v; want nothing and an error that names %s", out, err, c.says)
			}
		})
	}
}

func TestSubstitutedValuesComeBackWhateverTheyContain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOfN(rapid.StringMatching(`[A-Z][A-Za-z]{0,8}`), rapid.OneOf(rapid.StringN(1, -1, -1), rapid.Just(`${One}"\`)), 1, 5).Draw(t, "values")
		template := map[string]string{}
		for name := range values {
			template[name] = "${" + name + "}"
		}
		def, err := json.Marshal(template)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Substitute(def, values)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if !maps.Equal(got, values) {
			t.Fatalf("got %q, want %q", got, values)
		}
	})
}

func TestWhatIsNoStateMachineIsOneFinding(t *testing.T) {
	t.Parallel()
	for _, def := range []string{
		``, `null`, `[]`, `{`, `{}`, `{"States": {}}`, `{"States": {"A": 1}}`, `{"StartAt": "A", "States": {"A": {"Type": "Parallel"}}}`,
		`{"States": {"A": {"Type": "Map"}}}`, `{"States": {"A": {}}, "States": {"A": {"Type": "Succeed"}}}`, "{\"States\": \"\xff\"}",
	} {
		if diff := cmp.Diff([]string{Unreadable}, rulesOf(Check([]byte(def)))); diff != "" {
			t.Errorf("%s: %s", def, diff)
		}
	}
}

func TestFindingsPointIntoTheDefinitionAndSayWhatCouldHappen(t *testing.T) {
	t.Parallel()
	def := strings.Replace(string(AgentRun()), `"Lambda.TooManyRequestsException"`, `"Lambda.ServiceException"`, 1)
	want := []string{"narrow-retry at $.States.CallTools.ItemProcessor.States.Ask.Retry[0].ErrorEquals[0]: " +
		"Lambda.ServiceException is retried where a tool may have run: " +
		"Step Functions would send the request again although the first may have taken effect or be still running"}
	var got []string
	for _, f := range Check([]byte(def)) {
		got = append(got, f.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// harmless are the fields of the definition that may go without a finding, and
// why no effect hangs on them.
var harmless = map[string]string{
	"/Payload/from/": "only traces read it",
	"/Retry":         "asking less often is safe; another test compares the names",
	"/OutputPath":    "the execution's output; a scenario compares it",
	"/States/CallTools/ItemProcessor/States/Answer/Choices/3": "again falls to the Default, and the desk answers",
	"/States/NextStep/Choices/3/And/0":                        "a planner that gives a failure fails the run",
}

func TestEveryOtherFieldOfTheDefinitionIsHeldByARule(t *testing.T) {
	t.Parallel()
	var root any
	if err := json.Unmarshal(AgentRun(), &root); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, pointer := range pointers("", root) {
		if len(Check(fixture{Edits: []edit{{Delete: pointer}}}.definition(t))) > 0 {
			continue
		}
		known := false
		for part := range harmless {
			if strings.Contains(pointer, part) {
				known, used[part] = true, true
			}
		}
		if !known {
			t.Errorf("%s can be deleted unnoticed", pointer)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(harmless)), slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("reasons that nothing needs: %s", diff)
	}
}

// pointers returns a JSON pointer to everything in v but comments.
func pointers(at string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k != "Comment" {
				out = append(append(out, at+"/"+k), pointers(at+"/"+k, v[k])...)
			}
		}
	case []any:
		for i, e := range v {
			p := at + "/" + strconv.Itoa(i)
			out = append(append(out, p), pointers(p, e)...)
		}
	}
	return out
}

func FuzzCheckReadsAnything(f *testing.F) {
	f.Add(AgentRun())
	f.Add([]byte(`{"StartAt": 1, "States": {"A": {"Type": "Choice", "Choices": [1, {"And": 2, "Next": {}}], "Catch": [null], "Retry": {}}}}`))
	f.Add([]byte(`{"States": {"A": {"Type": "Map", "ItemProcessor": {"States": {"B": {"Type": "Wait", "SecondsPath": "$."}}}}}}`))
	f.Add([]byte(`{"States": {"A": {"Type": "Wait", "SecondsPath": "x"}, "B": {"Type": "Pass", "Next": "A"}}}`))
	f.Fuzz(func(t *testing.T, def []byte) {
		first := Check(def)
		if diff := cmp.Diff(first, Check(def)); diff != "" {
			t.Errorf("asked twice, two answers: %s", diff)
		}
	})
}
