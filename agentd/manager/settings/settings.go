// Package settings reads the manager's configuration file (manager facts,
// section 6): YAML, with ${exeDir}, ${genvmVersion} and ${ENV[NAME]} expanded in
// strings. Whatever is wrong in it — a key, a type, a duration, a range — is an
// error that says file, line and key, because a manager that guesses runs other
// people's code by rules that nobody wrote.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"time"

	"go.yaml.in/yaml/v3"
)

// The defaults.
const (
	DefaultRetention       = 5 * time.Minute
	DefaultMaxMessageBytes = 64 << 20
	DefaultSyncCost        = 4
	DefaultNondetCost      = 8
	// DefaultPath is where the file is looked for when no other is named.
	DefaultPath = "${exeDir}/../config/genvm-manager.yaml"
	// DefaultExecutors is where executors are looked for when no other
	// directory is named (manager facts, section 4.5).
	DefaultExecutors = "${exeDir}/../executor"
)

// Settings is what the file says, with defaults for what it leaves out.
type Settings struct {
	LogLevel        slog.Level          // default info
	ManifestPath    string              // empty: no manifest, so only literal versions resolve
	ManifestAt      string              // file, line and key of ManifestPath; empty: it stands in no file
	Executors       string              // directory of executors: <dir>/<name>/bin/genvm
	Permits         Permits             // the pool and what a run costs
	Retention       time.Duration       // life of an ended run; default 5 minutes
	MaxMessageBytes int64               // of one message of a client; default 64 MiB
	Modules         map[string][]string // the argument list of each module's program, by "llm" and "web"
	StrictResults   bool                // results are validated (manager facts, section 8); default false
	RewriteMethod   bool                // "method" in a run's calldata becomes ""; default true
}

// Permits is the pool of permits and the cost of a run, in permits.
type Permits struct {
	Total  *int     // nil: from the machine's free memory
	PerGiB *big.Rat // permits of a GiB of free memory; default 1
	Sync   int      // cost of a run without modules; default 4
	Nondet int      // cost of a run with modules; default 8
}

// Source is where settings come from.
type Source struct {
	// Path is the file. With Optional set, a file that does not exist means
	// that the defaults apply.
	Path     string
	Optional bool
	// ExeDir and Version are what ${exeDir} and ${genvmVersion} stand for.
	ExeDir, Version string
	// Environ returns what ${ENV[NAME]} stands for; empty when it is unset.
	Environ func(name string) string
}

// Expand expands the ${…} of one string.
func (s Source) Expand(text string) (string, error) { return expand(text, s) }

// Default returns the settings without a file.
func Default(s Source) (Settings, error) {
	executors, err := expand(DefaultExecutors, s)
	return Settings{
		LogLevel: slog.LevelInfo, Executors: executors,
		Permits:   Permits{PerGiB: big.NewRat(1, 1), Sync: DefaultSyncCost, Nondet: DefaultNondetCost},
		Retention: DefaultRetention, MaxMessageBytes: DefaultMaxMessageBytes,
		Modules: map[string][]string{}, RewriteMethod: true,
	}, err
}

// Read reads the file. Its errors name the file, and where it applies the line
// and the key; they never repeat a value, which may have come from the
// environment.
func Read(s Source) (Settings, error) {
	set, err := Default(s)
	if err != nil {
		return set, err
	}
	path, err := expand(s.Path, s)
	if err != nil {
		return set, err
	}
	text, err := os.ReadFile(path)
	if s.Optional && errors.Is(err, fs.ErrNotExist) {
		return set, nil // SETTING-2: nothing is configured, which is no mistake
	}
	if err != nil {
		return set, fmt.Errorf("cannot read the configuration: %w; give its path by --config", err)
	}
	return set, set.parse(path, text, s)
}

// parse enters a file's text into the settings.
func (set *Settings) parse(path string, text []byte, s Source) error {
	var doc, more yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	err := documents.Decode(&doc)
	if err == io.EOF {
		return nil // an empty file sets nothing
	}
	if err != nil {
		return fmt.Errorf("cannot read the configuration %q: %w", path, err)
	}
	r := &reader{path: path, source: s}
	switch err := documents.Decode(&more); {
	case err == nil:
		// SETTING-1: half of a file that is passed over is a setting that is lost.
		return fmt.Errorf("%s:%d: it is a second document: put all keys into one", path, more.Line)
	case err != io.EOF:
		return fmt.Errorf("cannot read the configuration %q: %w", path, err)
	}
	root := doc.Content[0]
	if root.Tag == "!!null" {
		return nil
	}
	return r.each(root, "", set.keys(r))
}

// keys is the table of the file's keys. What is not in it is refused.
//
// SETTING-3: a key that is read nowhere would mislead who wrote it.
func (set *Settings) keys(r *reader) map[string]taker {
	return map[string]taker{
		// SETTING-9: sizes of another runtime, and globs of its log; they are
		// judged as the facts say and have no effect here.
		"threads":          r.number(1, maxCost, nil),
		"blocking_threads": r.number(1, maxCost, nil),
		"log_disable":      r.text(nil),

		"log_level": r.level(&set.LogLevel),
		"manifest_path": func(n *yaml.Node, key string) error {
			set.ManifestAt = r.at(n, key)
			return r.filePath(&set.ManifestPath)(n, key)
		},
		"executors":           r.filePath(&set.Executors),
		"execution_retention": r.duration(&set.Retention),
		"max_message_bytes":   r.number(1, 1<<40, &set.MaxMessageBytes),
		"strict_results":      r.flag(&set.StrictResults),
		"rewrite_method":      r.flag(&set.RewriteMethod),
		"permits": func(n *yaml.Node, key string) error {
			if isNull(n) {
				return nil
			}
			return r.each(n, key+".", set.Permits.keys(r))
		},
		"modules": func(n *yaml.Node, key string) error {
			if isNull(n) {
				return nil
			}
			return r.each(n, key+".", map[string]taker{
				"llm": r.program(set.Modules, "llm"),
				"web": r.program(set.Modules, "web"),
			})
		},
	}
}

// maxCost is the highest number of permits, 2^32-1 (manager facts, section 4.3).
const maxCost = 1<<32 - 1

func (p *Permits) keys(r *reader) map[string]taker {
	return map[string]taker{
		"total": func(n *yaml.Node, key string) error {
			if isNull(n) {
				return nil
			}
			var total int64
			if err := r.number(0, maxCost, &total)(n, key); err != nil {
				return err
			}
			n64 := int(total)
			p.Total = &n64
			return nil
		},
		"per_gib": r.ratio(&p.PerGiB),
		// SETTING-7: a cost of 0 would take the bound away, and a greater one is none of the protocol's.
		"sync":   r.cost(&p.Sync),
		"nondet": r.cost(&p.Nondet),
	}
}
