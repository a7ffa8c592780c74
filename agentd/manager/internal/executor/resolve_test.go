package executor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/manager/internal/manifest"
)

const versions = `executor_versions:
  v0.3.6: {available_after: 2024-01-01T00:00:00Z}
  v0.3.7: {available_after: 2025-01-01T00:00:00Z}
  v1.0.0: {available_after: 2025-01-01T00:00:00Z}
`

func moment(t *testing.T, text string) msp.Timestamp {
	t.Helper()
	at, err := msp.ParseTimestamp(text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestSelectorsResolve(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-4")
	l := newLauncher(t, func(c *Config) { c.Manifest = manifestOf(t, versions) })
	at := moment(t, "2024-06-01T00:00:00Z")
	for _, tc := range []struct {
		s    msp.Selector
		name string
		v    manifest.Version
	}{
		{msp.Selector{Major: 0}, "v0.3.6", manifest.Version{Minor: 3, Patch: 6}},
		{msp.Selector{Major: 1}, "v1.0.0", manifest.Version{Major: 1}},
		{msp.Selector{IsVersion: true, Version: "re:^v0"}, "v0.3.6", manifest.Version{Minor: 3, Patch: 6}},
		{msp.Selector{IsVersion: true, Version: "v0.3.7"}, "v0.3.7", manifest.Version{Minor: 3, Patch: 7}}, // the time is ignored
		{msp.Selector{IsVersion: true, Version: "v9.8.7-x"}, "v9.8.7-x", manifest.Version{Major: 9, Minor: 8, Patch: 7}},
		{msp.Selector{IsVersion: true, Version: "demo"}, "demo", manifest.Version{}},
	} {
		if name, v, err := l.resolve(tc.s, at); err != nil || name != tc.name || v != tc.v {
			t.Errorf("%+v: %q, %v, error %v", tc.s, name, v, err)
		}
	}
	for _, s := range []msp.Selector{{Major: 5}, {IsVersion: true, Version: "re:^x"}, {IsVersion: true, Version: "re:("}} {
		if _, _, err := l.resolve(s, at); err == nil {
			t.Errorf("%+v was resolved", s)
		}
	}
}

func TestEarlyVersionIsWarnedOf(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-6")
	var log bytes.Buffer
	l := newLauncher(t, func(c *Config) {
		c.Manifest, c.Log = manifestOf(t, versions), slog.New(slog.NewTextHandler(&log, nil))
	})
	name, _, err := l.resolve(msp.Selector{Major: 0}, moment(t, "2020-01-01T00:00:00Z"))
	if err != nil || name != "v0.3.7" || !strings.Contains(log.String(), "WARN") {
		t.Errorf("%q, error %v, log %q", name, err, &log)
	}
}

func TestNamesThatAreNoDirectory(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-3")
	l := newLauncher(t, nil)
	for _, name := range []string{"", ".", "..", "../demo", "demo/../demo", "/demo", "demo/", "a\x00b", "v1..2"} {
		req := request()
		req.Selector.Version = name
		if _, err := l.Prepare(t.Context(), 1, req); err == nil || !strings.Contains(err.Error(), "name of a directory") {
			t.Errorf("version %q: error %v", name, err)
		}
	}
}

func TestWithoutManifestOnlyNamesResolve(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-11")
	l := newLauncher(t, nil)
	at := msp.At(time.Unix(0, 0))
	if _, _, err := l.resolve(msp.Selector{IsVersion: true, Version: "demo"}, at); err != nil {
		t.Error(err)
	}
	for _, s := range []msp.Selector{{Major: 0}, {IsVersion: true, Version: "re:demo"}} {
		if _, _, err := l.resolve(s, at); err == nil || !strings.Contains(err.Error(), "--manifest-path") {
			t.Errorf("%+v: error %v", s, err)
		}
	}
}

func TestOverridesNeedTheirMode(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-8")
	l := newLauncher(t, func(c *Config) { c.Manifest = manifestOf(t, versions) })
	five := uint32(5)
	for _, tc := range []struct {
		mode     msp.DebugMode
		rerouted bool
		depth    *uint32
	}{
		{msp.DebugDisabled, false, nil}, {msp.DebugSafe, true, nil}, {msp.DebugSafeUnbounded, true, nil},
		{msp.DebugUnsafe, true, &five}, {msp.DebugUnsafeTracing, true, &five},
	} {
		req := request()
		req.DebugMode = tc.mode
		req.UnsafeOverrides = msp.UnsafeOverrides{RerouteTo: "re:^v1", InitialRecursion: &five}
		p, err := l.Prepare(t.Context(), 1, req)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		var d msp.ExecutionData
		if err := calldata.Unmarshal(p.Input, &d); err != nil {
			t.Fatal(err)
		}
		if rerouted := p.Version == "v1.0.0"; rerouted != tc.rerouted {
			t.Errorf("mode %s: version %q", tc.mode, p.Version)
		}
		if (d.RemainingRecursion == nil) != (tc.depth == nil) || tc.depth != nil && *d.RemainingRecursion != *tc.depth {
			t.Errorf("mode %s: remaining recursion %v", tc.mode, d.RemainingRecursion)
		}
	}
	req := request()
	req.UnsafeOverrides.RerouteTo = ""
	if p, err := l.Prepare(t.Context(), 1, req); err != nil || p.Version != "demo" {
		t.Errorf("an empty override: %v", err)
	}
}
