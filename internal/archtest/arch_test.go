// Package archtest holds the repository to its own layout: which room may import
// which, how thin a function's main is, which links lead somewhere. It has no
// code of its own.
package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/names"
)

const (
	module = "github.com/onceward/onceward/"
	root   = "../.."
)

type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
	DepOnly    bool
}

func list(t *testing.T) map[string]goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps,DepOnly", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string]goPackage{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// within reports whether path is one of the prefixes or lies below one.
func within(path string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

func TestRoomsImportOneWay(t *testing.T) {
	packages := list(t)
	const dynamo = "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	allowed := map[string][]string{ // beside the standard library and themselves
		"middleware/ledger": {},
		"middleware/once": {
			module + "middleware/ledger", module + "internal/canonjson", "github.com/aws/aws-lambda-go", "github.com/go-json-experiment/json",
			"github.com/google/jsonschema-go", "github.com/cenkalti/backoff/v5",
		},
		"internal/names": {},
	}
	for room, may := range allowed {
		p, ok := packages[module+room]
		if !ok {
			t.Errorf("there is no %s", room)
		}
		for _, dep := range p.Deps {
			if !packages[dep].Standard && !within(dep, may...) {
				t.Errorf("%s depends on %s", room, dep)
			}
		}
	}
	for path, p := range packages {
		room, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		for _, dep := range p.Imports {
			switch {
			case strings.HasPrefix(room, "localstack/") && within(dep, module+"middleware", module+"internal/runs", module+"internal/operator"):
				t.Errorf("%s imports %s: an emulator that shares code with its client shares its mistakes", room, dep)
			case dep == dynamo && !within(room, "middleware/ledger/dynamoledger", "internal/runs/dynamoruns", "functions", "localstack", "internal/table", "internal/testtools"):
				t.Errorf("%s speaks DynamoDB", room)
			case within(dep, "github.com/aws/aws-cdk-go") && !within(room, "infra"):
				t.Errorf("%s imports CDK", room)
			case within(dep, module+"infra", module+"functions", module+"localstack") && !within(dep, module+room) && !within(room, "localstack"):
				t.Errorf("%s imports the program %s", room, dep)
			}
		}
	}
}

func TestEveryFunctionHasAFolderANameAndAThinMain(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(filepath.Join(root, "functions"))
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, e.Name())
			branches(t, filepath.Join(root, "functions", e.Name(), "main.go"))
		}
	}
	if !slices.Equal(folders, names.Functions()) {
		t.Errorf("folders %v, names %v", folders, names.Functions())
	}
}

// branches fails for anything in a main file that decides more than "if err".
func branches(t *testing.T, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			cond, ok := n.Cond.(*ast.BinaryExpr)
			if left, named := condName(cond); !ok || !named || left != "err" {
				t.Errorf("%s decides something; that belongs into the files beside it", path)
			}
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			t.Errorf("%s branches; that belongs into the files beside it", path)
		}
		return true
	})
}

func condName(cond *ast.BinaryExpr) (string, bool) {
	if cond == nil {
		return "", false
	}
	id, ok := cond.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name, true
}

var link = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)

func TestEveryRelativeLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", ".git", ".local", "dist"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: %s leads nowhere", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
