package main

import (
	"strings"
	"testing"
)

// TestVersion asks the command for its version, which starts nothing.
func TestVersion(t *testing.T) {
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"--version"}, &stdout, &stderr); code != 0 || stdout.String() != "verify "+version+"\n" || stderr.Len() > 0 {
		t.Errorf("exit %d with %q and %q", code, stdout.String(), stderr.String())
	}
}
