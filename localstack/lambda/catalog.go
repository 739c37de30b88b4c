package lambda

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"runtime"

	"github.com/google/uuid"
)

// configuration is a function as Lambda describes it. Environment variables
// are left out: they may hold credentials.
type configuration struct {
	FunctionName, FunctionArn, Runtime, Role, Handler, Description string
	CodeSize                                                       int64
	CodeSha256                                                     string
	Timeout, MemorySize                                            int
	LastModified, Version                                          string
	RevisionID                                                     string `json:"RevisionId"`
	State, LastUpdateStatus, PackageType                           string
	Architectures                                                  []string
	EphemeralStorage, TracingConfig, LoggingConfig                 map[string]any
}

func (p *pool) configuration(arn string) configuration {
	architecture := "x86_64"
	if runtime.GOARCH == "arm64" {
		architecture = "arm64"
	}
	return configuration{
		FunctionName: p.fn.Name, FunctionArn: arn, Runtime: "provided.al2023",
		Role:    "arn:aws:iam::" + Account + ":role/" + p.fn.Name,
		Handler: "bootstrap", CodeSize: p.size, CodeSha256: p.sum,
		// Whole seconds, as on AWS, rounded up.
		Timeout: int((p.fn.Timeout + 999_999_999) / 1_000_000_000), MemorySize: p.fn.MemoryMB,
		LastModified: p.made.UTC().Format("2006-01-02T15:04:05.000+0000"), Version: latest, RevisionID: p.revision,
		State: "Active", LastUpdateStatus: "Successful", PackageType: "Zip", Architectures: []string{architecture},
		EphemeralStorage: map[string]any{"Size": 512}, TracingConfig: map[string]any{"Mode": "PassThrough"},
		LoggingConfig: map[string]any{"LogFormat": "Text", "LogGroup": "/aws/lambda/" + p.fn.Name},
	}
}

func (s *Supervisor) serveList(w http.ResponseWriter, _ *http.Request) {
	list := []configuration{}
	for _, p := range s.sortedPools() {
		list = append(list, p.configuration(p.fn.ARN()))
	}
	describe(w, map[string]any{"Functions": list})
}

func (s *Supervisor) serveGet(w http.ResponseWriter, r *http.Request) {
	p, arn, err := s.resolve(r.PathValue("name"), r.URL.Query().Get("Qualifier"))
	if err != nil {
		writeAPIError(w, uuid.NewString(), err)
		return
	}
	describe(w, map[string]any{
		"Configuration": p.configuration(arn),
		"Code":          map[string]string{"RepositoryType": "S3", "Location": "file://" + p.fn.Path},
	})
}

func (s *Supervisor) serveConfiguration(w http.ResponseWriter, r *http.Request) {
	p, arn, err := s.resolve(r.PathValue("name"), r.URL.Query().Get("Qualifier"))
	if err != nil {
		writeAPIError(w, uuid.NewString(), err)
		return
	}
	describe(w, p.configuration(arn))
}

func describe(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-RequestId", uuid.NewString())
	_ = json.NewEncoder(w).Encode(body)
}

// describeCode gives size and digest of a bootstrap.
func describeCode(path string) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return 0, "", err
	}
	return size, base64.StdEncoding.EncodeToString(sum.Sum(nil)), nil
}
