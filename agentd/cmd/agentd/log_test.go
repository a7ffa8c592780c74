package main

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"microvms/agentd/execution"
)

// untouched leaves the process of the test as it is.
type untouched struct{}

func (untouched) prepare(*slog.Logger) *execution.OOMScoreAdj { return nil }
func (untouched) adoptsOrphans() bool                         { return false }
func (untouched) dropCapabilities() error                     { return nil }
func (untouched) powerOff() func() error                      { return nil }

// TestLogLevels runs a daemon that cannot listen, with a setting that cannot be
// read: its log is JSON lines of the asked level and above.
func TestLogLevels(t *testing.T) {
	t.Attr("requirement", "PROG-4")
	t.Attr("requirement", "PROG-5")
	for level, want := range map[string][]string{
		"": {"WARN", "INFO", "ERROR"}, "debug": {"WARN", "INFO", "ERROR"}, "info": {"WARN", "INFO", "ERROR"},
		"warn": {"WARN", "ERROR"}, "error": {"ERROR"}, "off": nil,
	} {
		environ := []string{"AGENTD_PORT=0", "AGENTD_REPAIR_IDENTITY=false", "AGENTD_DEFAULT_USER=someone", "AGENTD_EXEC_TTL_SECS=soon"}
		if level != "" {
			environ = append(environ, "AGENTD_LOG="+level)
		}
		var stdout, stderr strings.Builder
		// An address of documentation (RFC 5737): no machine has it.
		if code := run(t.Context(), []string{"--listen", "203.0.113.1"}, environ, &stdout, &stderr, untouched{}); code != exitFailed {
			t.Errorf("level %q: exit code %d", level, code)
		}
		var levels []string
		for line := range strings.Lines(stdout.String()) {
			var entry struct{ Time, Level, Msg string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Msg == "" {
				t.Errorf("level %q: log line %q (%v)", level, line, err)
			}
			levels = append(levels, entry.Level)
		}
		if !slices.Equal(levels, want) {
			t.Errorf("level %q: lines of %v, want %v", level, levels, want)
		}
	}
}
