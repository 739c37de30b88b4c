package once_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

func TestTableOfCodesIsClosedAndComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	word := regexp.MustCompile(`^[a-z][a-z0-9_]+$`)
	for _, c := range once.Codes() {
		if seen[c.Word] || !word.MatchString(c.Word) {
			t.Errorf("%q: twice, or no word", c.Word)
		}
		seen[c.Word] = true
		if c.Status == "" || c.Effect == "" || c.Retry == "" || c.HTTP < 200 || c.HTTP > 599 || !strings.HasSuffix(c.Meaning, ".") {
			t.Errorf("%+v is not complete", c)
		}
		if c.Status == once.Failed && c.Effect != "none" || c.Status == once.Indeterminate && c.Effect != "unknown" {
			t.Errorf("%s: %s with effect %s", c.Word, c.Status, c.Effect)
		}
		if !strings.HasPrefix(c.StepFunctions(), "Onceward.") || strings.Contains(c.StepFunctions(), "_") {
			t.Errorf("name %s", c.StepFunctions())
		}
	}
}

// Every code that this package and the ledger's rules write down is in the table.
func TestEveryCodeInTheSourceIsInTheTable(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, c := range once.Codes() {
		known[c.Word] = true
	}
	for _, file := range []string{"codes.go", "../ledger/moves.go", "../ledger/decisions.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		ast.Inspect(tree, func(n ast.Node) bool {
			var value ast.Expr
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
					value = n.Value
				}
			case *ast.ValueSpec:
				if strings.HasPrefix(n.Names[0].Name, "code") && len(n.Values) == 1 {
					value = n.Values[0]
				}
			}
			if text, ok := value.(*ast.BasicLit); ok && text.Kind == token.STRING {
				found++
				if word := strings.Trim(text.Value, `"`); !known[word] {
					t.Errorf("%s writes %q, which is not in the table", file, word)
				}
			}
			return true
		})
		if found == 0 {
			t.Errorf("no code found in %s: does the test still know how they are written?", file)
		}
	}
}

func TestErrorsCompareByStatusAlsoWrapped(t *testing.T) {
	t.Parallel()
	b := &bank{before: func(context.Context) error { return once.Rejected(errors.New("no")) }}
	_, err := bind(t, newGuard(t, newStore(t)), b.tool()).Do(t.Context(), call1, five).Value()
	err = fmt.Errorf("agent: %w", err)
	if !errors.Is(err, once.Failed) || errors.Is(err, once.Indeterminate) {
		t.Errorf("compares wrong: %v", err)
	}
	e, ok := errors.AsType[*once.Error](err)
	if !ok || e.Key != call1.Key() || e.Code != "rejected" || e.Tool != "issue_credit" {
		t.Errorf("error says %+v", e)
	}
	var named messages.InvokeResponse_Error
	if lambdaError := once.LambdaError(err); !errors.As(lambdaError, &named) || named.Type != "Onceward.Failed" {
		t.Errorf("Step Functions sees %v", named)
	}
	plain := errors.New("x")
	if got := once.LambdaError(plain); !errors.Is(got, plain) || errors.As(got, &named) || once.LambdaError(nil) != nil {
		t.Error("other errors are changed")
	}
}

func TestAnswerOfARecordForTheDesk(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{after: func(context.Context) error { return errors.New("lost") }}
	bind(t, newGuard(t, store), b.tool()).Do(t.Context(), call1, five)
	rec := record(t, store, call1.Key())
	for _, c := range []struct {
		looks  bool
		policy ledger.Policy
		next   ledger.Next
	}{{true, ledger.Pause, ledger.Look}, {false, ledger.Pause, ledger.Park}, {false, ledger.Tell, ledger.Done}} {
		a := once.AnswerOf(rec, rec.CreatedAt, c.looks, c.policy)
		if a.Next != c.next || a.Status != once.Indeterminate || a.Key != "acme/r1:c1" || a.ModelSays != "" || a.Result != nil {
			t.Errorf("got %+v, want next %s", a, c.next)
		}
	}
	a := once.AnswerOf(ledger.Record{}, rec.CreatedAt, true, ledger.Pause)
	if a.Status != once.Refused || a.Error.Code != "no_record" || a.Effect != ledger.NoEffect || a.Next != ledger.Again {
		t.Errorf("of nothing: %+v", a)
	}
}

// The public surface is small on purpose.
func TestPackageExportsFewNames(t *testing.T) {
	t.Parallel()
	packages, err := parser.ParseDir(token.NewFileSet(), ".", nil, parser.SkipObjectResolution) //nolint:staticcheck // one package without build tags
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for file, tree := range packages["once"].Files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, d := range tree.Decls {
			names = append(names, exported(d)...)
		}
	}
	const most = 75
	if len(names) > most || len(names) < 30 {
		t.Errorf("%d exported names, want at most %d: %v", len(names), most, names)
	}
}

func exported(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.IsExported() {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					if n.IsExported() {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}
