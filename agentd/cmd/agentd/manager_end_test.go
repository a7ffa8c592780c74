package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// full is a standard output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestLostOutputFails has what was asked for go to a file that takes nothing.
func TestLostOutputFails(t *testing.T) {
	t.Attr("requirement", "PROG-16")
	for _, args := range [][]string{{"--help"}, {"--version"}, {"manager", "--help"}} {
		var stderr strings.Builder
		if code := run(t.Context(), args, nil, full{}, &stderr, untouched{}); code != exitFailed || !strings.Contains(stderr.String(), "standard output") {
			t.Errorf("%q: exit code %d, %q", args, code, stderr.String())
		}
	}
}

// TestHangup ends the manager as a terminal that closes does.
func TestHangup(t *testing.T) {
	t.Attr("requirement", "SETTING-17")
	path := filepath.Join(t.TempDir(), "m.sock")
	m := startManager(t, "--socket", path, "--executors", executors(t))
	if err := m.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	m.end()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket after the end: %v", err)
	}
}

// TestManagerRefusesConfiguration starts with files that are wrong.
func TestManagerRefusesConfiguration(t *testing.T) {
	t.Attr("requirement", "SETTING-1")
	for text, want := range map[string]string{
		"executors: \"\"":                  `:1: key "executors": `,
		"\nmanifest_path: ${ENV[UNSET]}":   `:2: key "manifest_path": `,
		"\nmanifest_path: /nowhere/m.yaml": `:2: key "manifest_path": cannot read the manifest`,
		"threads: 1\n---\nexecutors: /e\n": `:2: `,
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		code := run(t.Context(), []string{"manager", "--port", "0", "--config", path}, nil, io.Discard, &stderr, untouched{})
		if code != exitUsage || !strings.Contains(stderr.String(), path+want) {
			t.Errorf("%q: exit code %d, %q", text, code, stderr.String())
		}
	}
}
