package settings

import (
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// source is a file with this text.
func source(t *testing.T, text string) Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manager.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Source{
		Path: path, ExeDir: "/exe", Version: "v1.2.3",
		Environ: func(name string) string { return map[string]string{"SET": "${exeDir}", "LEVEL": "warn"}[name] },
	}
}

func TestEverySettingIsRead(t *testing.T) {
	t.Attr("requirement", "SETTING-9")
	t.Attr("requirement", "SETTING-3")
	got, err := Read(source(t, `
threads: 4
blocking_threads: 48
log_disable: "a*,b"
log_level: Debug
manifest_path: ${exeDir}/m-${genvmVersion}.yaml
executors: /e
execution_retention: 1.5m
max_message_bytes: 1000
strict_results: true
rewrite_method: false
permits: {total: 32, per_gib: "3/2", sync: 5, nondet: 9}
modules:
  llm: [/bin/llm, --key, "${ENV[UNSET]}x"]
  web: ["${exeDir}/web"]
`))
	total := 32
	want := Settings{
		LogLevel: slog.LevelDebug, ManifestPath: "/exe/m-v1.2.3.yaml", ManifestAt: got.ManifestAt, Executors: "/e",
		Permits:   Permits{Total: &total, PerGiB: big.NewRat(3, 2), Sync: 5, Nondet: 9},
		Retention: 90 * time.Second, MaxMessageBytes: 1000, StrictResults: true,
		Modules: map[string][]string{"llm": {"/bin/llm", "--key", "x"}, "web": {"/exe/web"}},
	}
	if !strings.HasSuffix(got.ManifestAt, `manager.yaml:6: key "manifest_path"`) {
		t.Errorf("the manifest is said to stand at %q", got.ManifestAt)
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, error %v; want %+v", got, err, want)
	}
}

func TestDefaultsApply(t *testing.T) {
	t.Attr("requirement", "SETTING-2")
	want := Settings{
		LogLevel: slog.LevelInfo, Executors: "/exe/../executor",
		Permits:   Permits{PerGiB: big.NewRat(1, 1), Sync: 4, Nondet: 8},
		Retention: 5 * time.Minute, MaxMessageBytes: 64 << 20, Modules: map[string][]string{}, RewriteMethod: true,
	}
	missing := Source{Path: "${exeDir}/nowhere.yaml", ExeDir: "/exe", Optional: true}
	for name, s := range map[string]Source{
		"no file": missing, "empty": source(t, ""), "a comment": source(t, "# nothing\n"), "null": source(t, "~"),
		"null parts": source(t, "permits:\nmodules: ~\n"), "null total": source(t, "permits: {total: null}"),
	} {
		s.ExeDir = "/exe"
		if got, err := Read(s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read %+v, error %v", name, got, err)
		}
	}
	missing.Optional = false
	if _, err := Read(missing); err == nil || !strings.Contains(err.Error(), "/exe/nowhere.yaml") {
		t.Errorf("a named file that is missing: %v", err)
	}
}

func TestWrongSettingsSayWhere(t *testing.T) {
	t.Attr("requirement", "SETTING-7")
	t.Attr("requirement", "SETTING-1")
	for text, want := range map[string]string{
		"log_level: info\npermit: {}":                `:2: key "permit": it is unknown`,
		"log_level: info\n\nlog_level: info":         `:3: key "log_level": it is there twice`,
		"[a]":                                        `:1: it is not a map of keys`,
		"executors: \"\"":                            `:1: key "executors": it is empty`,
		"\nexecutors: ${ENV[UNSET]}":                 `:2: key "executors": it is empty`,
		"manifest_path: ${ENV[UNSET]}":               `:1: key "manifest_path": it is empty`,
		"threads: 1\n---\nthreads: 2\n":              `:2: it is a second document`,
		"threads: 1\n---\n\"x":                       "cannot read the configuration",
		"log_level: loud":                            `:1: key "log_level"`,
		"log_level: [info]":                          `"log_level": it is not a string`,
		"\nexecution_retention: 5":                   `:2: key "execution_retention": it is not a string`,
		"execution_retention: 5d":                    `"execution_retention": it is no duration`,
		"execution_retention: -5s":                   `"execution_retention": it is no duration`,
		"max_message_bytes: 0":                       `"max_message_bytes": it is not an integer from 1`,
		"max_message_bytes: 1.5":                     `"max_message_bytes": it is not an integer`,
		"max_message_bytes: many":                    `"max_message_bytes": it is not an integer`,
		"threads: 0":                                 `"threads": it is not an integer from 1`,
		"strict_results: 1":                          `"strict_results": it is neither true nor false`,
		"rewrite_method: \"true\"":                   `"rewrite_method": it is neither true nor false`,
		"manifest_path: 7":                           `"manifest_path": it is not a string`,
		"permits: 8":                                 `"permits": it is not a map`,
		"permits:\n  sync: 4\n  nondet: 0":           `:3: key "permits.nondet": it is not an integer from 1 to 4294967295`,
		"permits: {sync: 4294967296}":                `"permits.sync": it is not an integer from 1 to 4294967295`,
		"permits: {sync: null}":                      `"permits.sync": it is not an integer`,
		"permits: {total: -1}":                       `"permits.total": it is not an integer from 0`,
		"permits: {per_gib: 1/0}":                    `"permits.per_gib": it is neither`,
		"permits: {per_gib: 0}":                      `"permits.per_gib": it is neither`,
		"permits: {per_gib: 1.5}":                    `"permits.per_gib": it is not a string`,
		"permits: {per_gib: 1/2/3}":                  `"permits.per_gib": it is neither`,
		"permits: {each: 1}":                         `"permits.each": it is unknown`,
		"modules: {gpu: [x]}":                        `"modules.gpu": it is unknown`,
		"modules: {llm: x}":                          `"modules.llm": it is not a list`,
		"modules: {llm: []}":                         `"modules.llm": it is not a list`,
		"modules: {llm: [\"\"]}":                     `"modules.llm": it names no program`,
		"modules:\n  llm:\n    - x\n    - 1":         `:4: key "modules.llm[1]": it is not a string`,
		"executors: ${home}":                         `:1: key "executors": "${home}" stands for nothing`,
		"executors: ${exeDir":                        `:1: key "executors": "${" is not closed`,
		"executors: ${ENV[X}":                        `"${ENV[X}" stands for nothing`,
		"executors: \"x":                             "cannot read the configuration",
		"? [a]\n: b":                                 "it is unknown",
		"x: &a {}\n<<: *a":                           `key "x": it is unknown`,
		"log_level: &l loud\nmanifest_path: *l":      `:1: key "log_level"`,
		"modules: {llm: [a, \"${ENV[LEVEL]}${x}\"]}": `key "modules.llm[1]": "${x}" stands for nothing`,
	} {
		s := source(t, text)
		if _, err := Read(s); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.Path) {
			t.Errorf("%q: error %v; want one with %q and the file", text, err, want)
		}
	}
}

// TestWrongValuesAreNotRepeated puts what may be a secret where it does not
// belong.
func TestWrongValuesAreNotRepeated(t *testing.T) {
	t.Attr("requirement", "SETTING-4")
	for _, key := range []string{"log_level: %s", "execution_retention: %s", "max_message_bytes: %s", "permits: {per_gib: %s}", "permits: %s", "modules: {llm: %s}", "strict_results: %s"} {
		for _, value := range []string{"hunter2", `"${ENV[SECRET]}"`} {
			s := source(t, fmt.Sprintf(key, value))
			s.Environ = func(string) string { return "hunter2" }
			if _, err := Read(s); err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s with %s: %v", key, value, err)
			}
		}
	}
}

func TestStringsExpand(t *testing.T) {
	t.Attr("requirement", "SETTING-5")
	s := source(t, "")
	for text, want := range map[string]string{
		"":                        "",
		"a$b$$":                   "a$b$$",
		"${exeDir}${exeDir}/x":    "/exe/exe/x",
		"${genvmVersion}":         "v1.2.3",
		"<${ENV[UNSET]}>":         "<>",
		"${ENV[LEVEL]}-${exeDir}": "warn-/exe",
		"${ENV[SET]}":             "${exeDir}", // what it stands for is not expanded again
	} {
		if got, err := s.Expand(text); err != nil || got != want {
			t.Errorf("%q: %q, error %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"${}", "${EXEDIR}", "${ENV}", "${ENV[A", "${"} {
		if got, err := s.Expand(text); err == nil {
			t.Errorf("%q was expanded to %q", text, got)
		}
	}
}

func TestDurationsOfTheWire(t *testing.T) {
	t.Attr("requirement", "SETTING-6")
	for text, want := range map[string]time.Duration{"0s": 0, "250ms": 250 * time.Millisecond, ".5s": 500 * time.Millisecond, "24h": 24 * time.Hour, "18446744073709551615ms": 1<<63 - 1} {
		if got, err := Read(source(t, "execution_retention: "+text)); err != nil || got.Retention != want {
			t.Errorf("%s: %v, error %v", text, got.Retention, err)
		}
	}
}

func TestPoolOfPermits(t *testing.T) {
	t.Attr("requirement", "SETTING-8")
	meminfo := filepath.Join(t.TempDir(), "meminfo")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(meminfo, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	zero, forty := 0, 40
	write("MemTotal: 99999999 kB\nMemFree: 20971519 kB\nMemAvailable: 33554432 kB\nSwapFree: 1 kB\n") // 20 GiB together
	for name, tc := range map[string]struct {
		p    Permits
		want int
	}{
		"one a GiB":      {Permits{PerGiB: big.NewRat(1, 1), Sync: 4, Nondet: 8}, 20},
		"rounded down":   {Permits{PerGiB: big.NewRat(2, 3), Sync: 4, Nondet: 8}, 13},
		"raised":         {Permits{PerGiB: big.NewRat(1, 10), Sync: 4, Nondet: 8}, 8},
		"raised to sync": {Permits{PerGiB: big.NewRat(1, 10), Sync: 9, Nondet: 8}, 9},
		"configured":     {Permits{Total: &forty, PerGiB: big.NewRat(1, 1), Sync: 4, Nondet: 8}, 40},
		"too few":        {Permits{Total: &zero, PerGiB: big.NewRat(1, 1), Sync: 4, Nondet: 8}, 8},
		"beyond":         {Permits{PerGiB: big.NewRat(1<<32-1, 1), Sync: 4, Nondet: 8}, maxCost},
	} {
		if got, err := tc.p.Pool(meminfo); err != nil || got != tc.want {
			t.Errorf("%s: %d, error %v; want %d", name, got, err, tc.want)
		}
	}
	p := Permits{PerGiB: big.NewRat(1, 1), Sync: 4, Nondet: 8}
	for _, text := range []string{"", "MemFree: much kB\n", "SwapFree: 1 kB\n"} {
		write(text)
		if _, err := p.Pool(meminfo); err == nil || !strings.Contains(err.Error(), "permits.total") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	if _, err := p.Pool(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is missing was read")
	}
	if n, err := p.Pool(MemInfo); err != nil || n < 8 {
		t.Errorf("this machine: %d, error %v", n, err)
	}
}
