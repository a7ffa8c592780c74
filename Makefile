# Two commands matter: `make verify` (the whole gate) and `make test` (every test).
.DEFAULT_GOAL := help
SHELL := /bin/sh
GO ?= go
export CGO_ENABLED ?= 0

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
FUZZTIME ?= 20s
BENCHTIME ?= 1s

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: verify
verify: ## the whole gate: lint, models, replay, histories, tests, matrix; writes verify/report
	@$(GO) run ./verify/cmd/verify run $(VERIFYFLAGS)

.PHONY: test
test: ## every test, with the race detector when a C compiler is there
	@$(GO) run ./verify/cmd/verify test --race=auto $(TESTFLAGS)

.PHONY: bench
bench: ## benchmarks beside their peers; PEERS=DIR names the folder that holds the limit programs
	@$(GO) run ./verify/cmd/bench --peers "$(PEERS)" $(BENCHFLAGS)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (20s) each
	@GO="$(GO)" FUZZTIME="$(FUZZTIME)" ./scripts/fuzz.sh

.PHONY: lint
lint: ## formatting, go vet, golangci-lint when it is installed, and the requirements' linter
	@GO="$(GO)" ./scripts/lint.sh

.PHONY: generate
generate: ## write the generated files again (SPEC.md and others); CI wants a clean tree after it
	$(GO) generate ./...

.PHONY: build
build: ## static binaries for linux/amd64 and linux/arm64 in bin/
	@for arch in amd64 arm64; do \
		for cmd in agentd/cmd/agentd client/cmd/microvm model/cmd/modelcheck conformance/cmd/conform verify/cmd/verify; do \
			GOOS=linux GOARCH=$$arch CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/linux-$$arch/$${cmd##*/} ./$$cmd || exit 1; \
		done; \
	done
	@ls -l bin/linux-*/

.PHONY: clean
clean: ## remove what the other targets wrote
	rm -rf bin verify/report conformance/failures
