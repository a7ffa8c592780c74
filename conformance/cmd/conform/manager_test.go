package main

import (
	"strings"
	"testing"

	"microvms/conformance/process"
)

// TestARealManagerHolds plays rows against this repository's manager as a stranger
// would: as a command. A program that is no executor is not what the manager is
// judged for, and a row that is not there is no pass.
func TestARealManagerHolds(t *testing.T) {
	t.Attr("requirement", "CONF-4")
	t.Attr("requirement", "CONF-5")
	t.Attr("requirement", "CONF-6")
	dir := t.TempDir()
	var programs [2]string
	for i, name := range []string{"microvms/agentd/cmd/agentd", "microvms/conformance/cmd/executor"} {
		var err error
		if programs[i], err = process.Build(t.Context(), dir, name); err != nil {
			t.Fatal(err)
		}
	}
	judged := []string{"--manager", programs[0], "--executor", programs[1]}
	code, out, errs := conform(t, append(judged, "--rows", "W4,W6")...)
	if code != exitHolds || !strings.Contains(out, "2 held, 0 violated, 0 inconclusive, 0 left out") {
		t.Errorf("exit %d:\n%s%s", code, out, errs)
	}
	code, out, _ = conform(t, append(judged, "--rows", "W0")...)
	if code != exitViolated {
		t.Errorf("no row: exit %d:\n%s", code, out)
	}
	code, out, _ = conform(t, "--manager", programs[0], "--executor", "/bin/true", "--rows", "W4")
	if code != exitViolated || !strings.Contains(out, "before the row: a good run ended") {
		t.Errorf("a program that is no executor: exit %d:\n%s", code, out)
	}
}
