package statemachines

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fixture is a mutation of the shipped definition. A bad one is found by exactly
// Rule and Also, a good one by no rule.
type fixture struct {
	Rule  string   `json:"rule"`
	Bad   string   `json:"bad"`
	Good  string   `json:"good"`
	Also  []string `json:"also"`
	Edits []edit   `json:"edits"`
}

// edit names a value by JSON pointer: Set replaces or adds it, Insert puts an
// element before it, Delete removes it.
type edit struct {
	Set    string `json:"set"`
	Insert string `json:"insert"`
	Delete string `json:"delete"`
	To     any    `json:"to"`
}

func (f fixture) name() string { return f.Rule + "/" + f.Bad + f.Good }

func (f fixture) expects() []string {
	if f.Bad == "" {
		return nil
	}
	return slices.Sorted(slices.Values(append([]string{f.Rule}, f.Also...)))
}

//go:embed testdata/fixtures.json
var fixtureFile []byte

func fixtures(t *testing.T) []fixture {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(fixtureFile))
	dec.DisallowUnknownFields()
	var all []fixture
	if err := dec.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func (f fixture) definition(t *testing.T) []byte {
	t.Helper()
	var root any
	if err := json.Unmarshal(AgentRun(), &root); err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Edits {
		root = e.apply(t, root, strings.Split(e.Set+e.Insert+e.Delete, "/")[1:])
	}
	out, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply returns node with the edit made at the end of keys. An edit that changes
// nothing fails the test: it would prove nothing.
func (e edit) apply(t *testing.T, node any, keys []string) any {
	t.Helper()
	key, last := keys[0], len(keys) == 1
	switch node := node.(type) {
	case map[string]any:
		old, ok := node[key]
		switch {
		case !last && ok:
			node[key] = e.apply(t, old, keys[1:])
		case last && e.Delete != "" && ok:
			delete(node, key)
		case last && e.Set != "" && !cmp.Equal(old, e.To):
			node[key] = e.To
		default:
			t.Fatalf("edit %+v does not apply at %q", e, key)
		}
		return node
	case []any:
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i > len(node) || (i == len(node) && e.Insert == "") {
			t.Fatalf("edit %+v does not apply at %q", e, key)
		}
		switch {
		case !last:
			node[i] = e.apply(t, node[i], keys[1:])
		case e.Insert != "":
			return slices.Insert(node, i, e.To)
		case e.Delete != "":
			return slices.Delete(node, i, i+1)
		default:
			node[i] = e.To
		}
		return node
	}
	t.Fatalf("edit %+v leads nowhere at %q", e, key)
	return nil
}

func rulesOf(found []Finding) []string {
	set := map[string]bool{}
	for _, f := range found {
		set[f.Rule] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func TestEachFixtureIsFoundByExactlyTheNamedRules(t *testing.T) {
	t.Parallel()
	for _, f := range fixtures(t) {
		t.Run(f.name(), func(t *testing.T) {
			t.Parallel()
			found := Check(f.definition(t))
			if diff := cmp.Diff(f.expects(), rulesOf(found)); diff != "" {
				t.Errorf("rules that found it (-want +got):\n%s\n%v", diff, found)
			}
		})
	}
}

func TestNoRuleCanBeRemovedUnnoticed(t *testing.T) {
	t.Parallel()
	all := fixtures(t)
	for i, r := range ruleTable {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			without := slices.Delete(slices.Clone(ruleTable), i, i+1)
			noticed, good := 0, 0
			for _, f := range all {
				switch {
				case f.Rule != r.ID:
				case f.Good != "":
					good++
				case len(check(f.definition(t), without)) == 0:
					noticed++ // nobody else would have found this one
				}
			}
			if noticed == 0 {
				t.Error("every bad fixture of this rule is found by another rule too: the rule could be removed unnoticed")
			}
			if good == 0 {
				t.Error("the rule has no good fixture: it could refuse too much unnoticed")
			}
		})
	}
}

func TestEveryFixtureNamesARule(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, r := range Rules() {
		if slices.Contains(ids, r.ID) || r.Says == "" || r.Danger == "" {
			t.Errorf("rule %q: its ID is not unique, or it doesn't say what it is for", r.ID)
		}
		ids = append(ids, r.ID)
	}
	for _, f := range fixtures(t) {
		if !slices.Contains(ids, f.Rule) || (f.Bad == "") == (f.Good == "") {
			t.Errorf("%s: names no rule, or is not either good or bad", f.name())
		}
	}
}
