#!/usr/bin/env bash
# Fails if anything generated, go.mod or the docs are not what the code says.
set -eu -o pipefail
cd "$(dirname "$0")/.."

sums() { find docs internal statemachines middleware -type f \( -name '*.md' -o -name '*.yaml' -o -name '*.json' -o -name '*_gen.go' \) -print0 | sort -z | xargs -0 sha256sum; }

before=$(sums)
go generate ./...
if ! diff <(echo "$before") <(sums); then
  echo "verify: generated files were out of date; they are written anew: commit them" >&2
  exit 1
fi
go mod tidy -diff
go vet ./...
go test ./internal/archtest ./internal/reference/...
echo "verify: all in step"
