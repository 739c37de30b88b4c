package systemtest

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"

	"github.com/onceward/onceward/internal/names"
)

// Proves: R78
func TestBadEnvelopeIsRefusedWithACodeAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(call map[string]any, e map[string]any) string{
		"an unknown tool":     func(c, _ map[string]any) string { c["tool"] = "pay_twice"; return "" },
		"an unknown field":    func(_, e map[string]any) string { e["extra"] = 1; return "" },
		"an unknown argument": func(c, _ map[string]any) string { c["arguments"].(map[string]any)["note"] = "x"; return "" },
		"a missing call id":   func(c, _ map[string]any) string { delete(c, "id"); return "" },
		"a missing run id":    func(_, e map[string]any) string { e["run"] = map[string]any{}; return "" },
		"300 KB of arguments": func(c, _ map[string]any) string {
			c["arguments"].(map[string]any)["account_id"] = strings.Repeat("x", 300_000)
			return ""
		},
		"another version":            func(_, e map[string]any) string { e["onceward"] = 2; return "" },
		"an unknown mode":            func(_, e map[string]any) string { e["mode"] = "run"; return "" },
		"a number that doubles lose": func(_, _ map[string]any) string { return `"amount_cents":9007199254740993` },
		"a repeated name":            func(_, _ map[string]any) string { return `"amount_cents":2500,"amount_cents":9900` },
		"both kinds of arguments":    func(c, _ map[string]any) string { c["arguments_json"] = "{}"; return "" },
		"no permission":              func(_, e map[string]any) string { e["principal"] = map[string]any{"subject": "x"}; return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := ownRun(t)
			e := envelope("invoke", run, run)
			e["call"] = maps.Clone(e["call"].(map[string]any))
			replaced := spoil(e["call"].(map[string]any), e)
			payload := encode(t, e)
			if replaced != "" {
				payload = bytes.Replace(payload, []byte(`"amount_cents":2500`), []byte(replaced), 1)
			}
			a, err := invoke(t.Context(), payload)
			if err != nil {
				t.Fatal(err)
			}
			if a.Status != "refused" || a.Error.Code == "" || a.Effect != "none" || a.Next != "done" {
				t.Errorf("%+v", a)
			}
			if got := credits(t, run); got != 0 {
				t.Errorf("effects %d, want 0", got)
			}
			if status, text := operator(t, "dev::ada", http.MethodGet, callPath(run), nil); status != http.StatusNotFound {
				t.Errorf("there is a record: %d: %s", status, text)
			}
		})
	}
}

func TestFrontRefusesWhatIsNoJSONOrTooLarge(t *testing.T) {
	t.Parallel()
	client := lambdaClient()
	function := aws.String(system.Names.Function(names.BillingTools))
	_, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: function, Payload: []byte("{not json")})
	if _, ok := errors.AsType[*types.InvalidRequestContentException](err); !ok {
		t.Errorf("not JSON: %v", err)
	}
	_, err = client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: function, Payload: []byte(`"` + strings.Repeat("x", 6<<20) + `"`)})
	// The service sends this code, whatever its model calls the error.
	if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != "RequestEntityTooLargeException" {
		t.Errorf("over 6 MB: %v", err)
	}
	_, err = client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("nobody"), Payload: []byte("{}")})
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Errorf("no such function: %v", err)
	}
}

// Proves: R50, R51
func TestOneKeyForTwoRequestsIsAConflictAndTheFirstStands(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	mustInvoke(t, envelope("invoke", run, run))
	other := mustInvoke(t, envelope("invoke", run, run+"-other"))
	if other.Status != "conflict" || other.Result != nil {
		t.Errorf("%+v", other)
	}
	if credits(t, run) != 1 || credits(t, run+"-other") != 0 {
		t.Error("the conflict paid")
	}
}

// Proves: R104, R105
func TestResolveNamesEveryWrongField(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	mustInvoke(t, envelope("invoke", run, run+"-drop-request"))
	version := show(t, run).Version
	for name, body := range map[string]map[string]any{
		"no reason":       {"outcome": "failed", "expected_version": version},
		"an empty reason": {"outcome": "failed", "reason": " ", "expected_version": version},
		"no outcome":      {"reason": "looked", "expected_version": version},
		"another outcome": {"outcome": "maybe", "reason": "looked", "expected_version": version},
		"no version":      {"outcome": "failed", "reason": "looked"},
		"an unknown word": {"outcome": "failed", "reason": "looked", "expected_version": version, "actor": "mallory"},
	} {
		if status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"), body); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d: %s", name, status, text)
		}
	}
	if s := show(t, run); s.Status != "indeterminate" || len(s.Decisions) != 0 {
		t.Errorf("a refused decision changed the call: %+v", s)
	}
}

// Proves: R101, R103
func TestAnotherTenantSeesAndDecidesNothing(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	e := envelope("invoke", run, run+"-drop-request")
	e["tenant"] = "acme"
	if a := mustInvoke(t, e); a.Key != "acme/"+run+":call_1" {
		t.Fatalf("%+v", a)
	}
	path := "/v1/tool-executions/" + "acme%2F" + run + ":call_1"
	if status, text := operator(t, "dev:acme:ada", http.MethodGet, path, nil); status != http.StatusOK {
		t.Errorf("its own tenant: %d: %s", status, text)
	}
	for _, actor := range []string{"dev:other:eve", "dev::eve"} {
		if status, text := operator(t, actor, http.MethodGet, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d: %s", actor, status, text)
		}
		body := map[string]any{"outcome": "failed", "reason": "mine now", "expected_version": 2}
		if status, text := operator(t, actor, http.MethodPost, path+"/resolve", body); status != http.StatusNotFound {
			t.Errorf("%s resolves: %d: %s", actor, status, text)
		}
		if _, text := operator(t, actor, http.MethodGet, "/v1/tool-executions?limit=100", nil); contains(text, run) {
			t.Errorf("%s: it is in the list: %s", actor, text)
		}
	}
	if status, _ := operator(t, "nonsense", http.MethodGet, path, nil); status != http.StatusUnauthorized {
		t.Errorf("without an identity: %d", status)
	}
}
