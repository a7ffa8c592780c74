#!/bin/sh
# Runs every fuzz target of the tree for FUZZTIME, one after another, and stops at the first that fails.
set -eu
cd "$(dirname "$0")/.."
: "${GO:=go}" "${FUZZTIME:=20s}"
n=0
for pkg in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
	for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$pkg"/*_test.go | sed 's/^func //' | sort -u); do
		n=$((n + 1))
		echo "== $pkg $target ($FUZZTIME)"
		"$GO" test "$pkg" -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" -fuzzminimizetime 10x
	done
done
[ "$n" -gt 0 ] || { echo "fuzz: no target found" >&2; exit 1; }
echo "fuzz: $n targets, $FUZZTIME each, no failure"
