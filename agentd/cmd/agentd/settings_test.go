package main

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
)

// TestSettings reads each variable in each form: what can be read is in force,
// what cannot keeps its default and gives a warning that does not quote it.
func TestSettings(t *testing.T) {
	t.Attr("requirement", "PROG-1")
	read := func(entries ...string) settings {
		t.Helper()
		s, warnings, err := readSettings(entries)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%q: warnings %v, error %v", entries, warnings, err)
		}
		return s
	}
	if s := read(); s.port != 9000 || s.level != slog.LevelInfo || !s.config.RepairIdentity || s.config.DefaultUser != nil || s.config.PreserveImageUser {
		t.Errorf("defaults: %+v", s)
	}
	s := read("AGENTD_PORT=+80", "AGENTD_PORT=81", "AGENTD_LOG=WARN", "AGENTD_REPAIR_IDENTITY= Off ", "AGENTD_DEFAULT_USER=", "AGENTD_PRESERVE_IMAGE_USER=1",
		"AGENTD_MAX_BODY_BYTES=5", "AGENTD_MAX_OUTPUT_BYTES=6", "AGENTD_STREAM_BUFFER_BYTES=7", "AGENTD_MAX_STDIN_WRITE_BYTES=8", "AGENTD_DISK_RESERVE_BYTES=0",
		"AGENTD_OUTPUT_LINGER_SECS=0", "AGENTD_EXEC_TTL_SECS=18446744073709551615", "AGENTD_SSE_KEEPALIVE_SECS=+9", "AGENTD_DROP_EXEC_CAPABILITIES=false", "OTHER=x", "nothing")
	l := s.config.Limits
	if s.port != 80 || s.level != slog.LevelWarn || s.config.RepairIdentity || s.config.DefaultUser == nil || *s.config.DefaultUser != "" || !s.config.PreserveImageUser {
		t.Errorf("words: %+v", s)
	}
	if l.MaxBodyBytes != 5 || l.MaxOutputBytes != 6 || l.StreamBufferBytes != 7 || l.MaxStdinWriteBytes != 8 || l.DiskReserveBytes != -1 {
		t.Errorf("sizes: %+v", l)
	}
	if l.OutputLinger >= 0 || l.ExecTTL < 200*365*24*time.Hour || l.SSEKeepalive != 9*time.Second {
		t.Errorf("durations: %+v", l)
	}
	if s := read("AGENTD_MAX_OUTPUT_BYTES=18446744073709551615"); s.config.Limits.MaxOutputBytes != math.MaxInt {
		t.Errorf("the largest size: %d", s.config.Limits.MaxOutputBytes)
	}
}

// TestUnreadableSettings checks that each keeps its default with one warning
// that names it.
func TestUnreadableSettings(t *testing.T) {
	t.Attr("requirement", "PROG-1")
	t.Attr("requirement", "PROG-2")
	t.Attr("requirement", "PROG-3")
	clean, _, err := readSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	for variable, values := range map[string][]string{
		"AGENTD_PORT":               {"", " 80", "-1", "65536", "80 ", "0x50", "++1", "\xff"},
		"AGENTD_MAX_BODY_BYTES":     {"", "-5", "5.0", "18446744073709551616", "1_000"},
		"AGENTD_OUTPUT_LINGER_SECS": {"5s", "1.5"},
		"AGENTD_REPAIR_IDENTITY":    {"", "maybe", "2"},
		"AGENTD_LOG":                {"", "loud", "info,x=debug"},
	} {
		for _, value := range values {
			s, warnings, err := readSettings([]string{variable + "=" + value})
			if err != nil || len(warnings) != 1 || warnings[0].variable != variable {
				t.Errorf("%s=%q: warnings %v, error %v", variable, value, warnings, err)
			}
			if s.port != clean.port || s.level != clean.level || s.config.Limits != clean.config.Limits || s.config.RepairIdentity != clean.config.RepairIdentity {
				t.Errorf("%s=%q changed a setting: %+v", variable, value, s)
			}
		}
	}
	for _, value := range []string{"", "yes", "TRUE", " true", "\xff", "10"} {
		if _, _, err := readSettings([]string{"AGENTD_DROP_EXEC_CAPABILITIES=" + value}); err == nil {
			t.Errorf("AGENTD_DROP_EXEC_CAPABILITIES=%q was accepted", value)
		}
	}
}

// FuzzSettings checks that no environment crashes the reading and that every
// limit stays in the form that agentd.Limits takes.
func FuzzSettings(f *testing.F) {
	f.Add("AGENTD_PORT", "1")
	f.Add("AGENTD_EXEC_TTL_SECS", "99999999999999999999")
	f.Add("AGENTD_LOG", "\xff")
	f.Fuzz(func(t *testing.T, name, value string) {
		s, warnings, err := readSettings([]string{name + "=" + value, value, "="})
		if err != nil {
			if !strings.HasPrefix(name+"="+value, "AGENTD_DROP_EXEC_CAPABILITIES=") && !strings.HasPrefix(value, "AGENTD_DROP_EXEC_CAPABILITIES=") {
				t.Fatalf("%q=%q: %v", name, value, err)
			}
			return
		}
		for _, w := range warnings {
			if w.variable == "" || w.reason == "" {
				t.Fatalf("empty warning for %q=%q", name, value)
			}
		}
		l := s.config.Limits
		for _, d := range []time.Duration{l.OutputLinger, l.ExecTTL, l.SSEKeepalive} {
			if d < -1 {
				t.Fatalf("%q=%q gives a duration of %v", name, value, d)
			}
		}
	})
}

// TestHandlerBudgetIsClamped checks the limits of the one setting that is cut
// rather than taken as it is.
func TestHandlerBudgetIsClamped(t *testing.T) {
	t.Attr("requirement", "HOOK-21")
	for value, want := range map[string]time.Duration{
		"0": time.Second, "1": time.Second, "20": 20 * time.Second, "+55": 55 * time.Second, "56": 55 * time.Second,
		"18446744073709551615": 55 * time.Second, "18446744073709551616": 0, "-1": 0, "": 0, "1.5": 0, " 5": 0,
	} {
		s, warnings, err := readSettings([]string{"AGENTD_HOOK_HANDLER_TIMEOUT_SECS=" + value})
		if err != nil || s.config.Limits.HookHandlerTimeout != want || (len(warnings) == 0) != (want != 0) {
			t.Errorf("%q gives %v, want %v (0 keeps the default), with warnings %v, %v", value, s.config.Limits.HookHandlerTimeout, want, warnings, err)
		}
	}
}

// TestDropCapabilitiesWords checks which words switch the drop on and off.
func TestDropCapabilitiesWords(t *testing.T) {
	t.Attr("requirement", "CAP-4")
	for value, want := range map[string]bool{"true": true, "1": true, "false": false, "0": false} {
		if s, _, err := readSettings([]string{"AGENTD_DROP_EXEC_CAPABILITIES=" + value}); err != nil || s.dropCapabilities != want {
			t.Errorf("%q gives %v, %v; want %v", value, s.dropCapabilities, err, want)
		}
	}
	if s, _, err := readSettings(nil); err != nil || s.dropCapabilities {
		t.Errorf("unset gives %v, %v; want off", s.dropCapabilities, err)
	}
}
