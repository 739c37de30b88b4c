SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

GO ?= go
ARCH ?= arm64
PORT ?= 4566
LINT = $(GO) tool -modfile=tools.mod golangci-lint
FUNCTIONS = $(notdir $(patsubst %/main.go,%,$(wildcard functions/*/main.go)))
LDFLAGS = -s -w

.PHONY: help
help: ## Show what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: node_modules ## Build everything and tell each story on this machine; no account, no Docker
	@$(GO) build -o .local/bin/localstack ./localstack
	@exec .local/bin/localstack demo

.PHONY: up
up: node_modules ## Start the whole system on http://127.0.0.1:4566 (PORT=… for another) and keep it running; DATA=.local/data keeps what it holds
	@$(GO) build -o .local/bin/localstack ./localstack
	@exec .local/bin/localstack up --port $(PORT) $(if $(DATA),--data '$(DATA)')

.PHONY: test
test: node_modules ## Run all tests
	$(GO) test ./...

.PHONY: test-race
test-race: node_modules ## Run all tests under the race detector, the longest tables thinned
	$(GO) test -race -short ./...

.PHONY: bench
bench: node_modules ## Compare a guarded call with two raw SDK calls in one run
	scripts/bench.sh

.PHONY: lint
lint: ## Run the linters and check formatting
	$(LINT) config verify
	$(LINT) run ./...
	$(LINT) fmt --diff ./...

.PHONY: fmt
fmt: ## Format the code
	$(LINT) fmt ./...

.PHONY: generate
generate: ## Write the generated pages anew
	$(GO) generate ./...

.PHONY: verify
verify: ## Fail if anything generated, go.mod or the docs' links are not up to date
	scripts/verify.sh

.PHONY: build
build: $(FUNCTIONS:%=dist/%/bootstrap) ## Build the functions for Lambda into dist/<function>/bootstrap (ARCH=amd64 overrides)

.PHONY: FORCE
FORCE:

dist/%/bootstrap: FORCE
	@mkdir -p $(@D)
	GOOS=linux GOARCH=$(ARCH) CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags lambda.norpc -ldflags '$(LDFLAGS)' -o $@ ./functions/$*

node_modules: package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	@touch node_modules

.PHONY: clean
clean: ## Remove what was built and installed, and what the local stack kept
	rm -rf dist .local node_modules
