#!/bin/sh
# Formatting, go vet, golangci-lint when it is installed, and the requirements' linter.
set -eu
cd "$(dirname "$0")/.."
: "${GO:=go}"
unformatted=$("$(dirname "$("$GO" env GOROOT)/bin/x")/gofmt" -l $(git ls-files '*.go'))
[ -z "$unformatted" ] || { printf 'lint: not formatted, run gofmt -w:\n%s\n' "$unformatted" >&2; exit 1; }
"$GO" vet ./...
if command -v golangci-lint >/dev/null 2>&1; then golangci-lint run ./...; else echo "lint: golangci-lint is not installed, its checks were left out"; fi
"$GO" run ./spec/cmd/spec lint
