package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"microvms/agentd/api/msp"
)

// taker judges the value of a key and stores it.
type taker func(n *yaml.Node, key string) error

// reader makes takers that know the file and what its strings may hold.
type reader struct {
	path   string
	source Source
}

// wrong says where a value stands and why it is refused.
//
// SETTING-1: file, line and key, since the reader of the message has nothing else to go by.
// SETTING-4: not the value, since it may be a secret from the environment.
func (r *reader) wrong(n *yaml.Node, key, format string, args ...any) error {
	return fmt.Errorf("%s: %w", r.at(n, key), fmt.Errorf(format, args...))
}

// at says where a value stands.
func (r *reader) at(n *yaml.Node, key string) string {
	if key == "" {
		return fmt.Sprintf("%s:%d", r.path, n.Line)
	}
	return fmt.Sprintf("%s:%d: key %q", r.path, n.Line, key)
}

// each hands the values of a map to the takers of their keys.
func (r *reader) each(n *yaml.Node, prefix string, takers map[string]taker) error {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return r.wrong(n, strings.TrimSuffix(prefix, "."), "it is not a map of keys")
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		k, v := n.Content[i], resolve(n.Content[i+1])
		key := prefix + k.Value
		take, known := takers[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || !known:
			return r.wrong(k, key, "it is unknown")
		case seen[k.Value]:
			return r.wrong(k, key, "it is there twice")
		}
		seen[k.Value] = true
		if err := take(v, key); err != nil {
			return err
		}
	}
	return nil
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// scalar returns the expanded text of a string.
func (r *reader) scalar(n *yaml.Node, key string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return "", r.wrong(n, key, "it is not a string")
	}
	text, err := expand(n.Value, r.source)
	if err != nil {
		return "", r.wrong(n, key, "%w", err)
	}
	return text, nil
}

// text stores a string; nil only judges it.
func (r *reader) text(to *string) taker {
	return func(n *yaml.Node, key string) error {
		text, err := r.scalar(n, key)
		if err == nil && to != nil {
			*to = text
		}
		return err
	}
}

// filePath stores a path, which must not be empty.
func (r *reader) filePath(to *string) taker {
	return func(n *yaml.Node, key string) error {
		err := r.text(to)(n, key)
		if err == nil && *to == "" {
			// SETTING-1: an unset variable is the likely cause, and no path is meant by it.
			err = r.wrong(n, key, "it is empty: name a path, and look whether each variable in it is set")
		}
		return err
	}
}

// number stores an integer within its range; nil only judges it.
func (r *reader) number(least, most int64, to *int64) taker {
	return func(n *yaml.Node, key string) error {
		v, err := integer(n)
		if err != nil || v < least || v > most {
			return r.wrong(n, key, "it is not an integer from %d to %d", least, most)
		}
		if to != nil {
			*to = v
		}
		return nil
	}
}

func integer(n *yaml.Node) (int64, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return 0, errors.New("no integer")
	}
	var v int64
	return v, n.Decode(&v)
}

// cost stores a number of permits.
func (r *reader) cost(to *int) taker {
	return func(n *yaml.Node, key string) error {
		var v int64
		if err := r.number(1, maxCost, &v)(n, key); err != nil {
			return err
		}
		*to = int(v)
		return nil
	}
}

func (r *reader) flag(to *bool) taker {
	return func(n *yaml.Node, key string) error {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(to) != nil {
			return r.wrong(n, key, "it is neither true nor false")
		}
		return nil
	}
}

func (r *reader) duration(to *time.Duration) taker {
	return func(n *yaml.Node, key string) error {
		text, err := r.scalar(n, key)
		if err != nil {
			return err
		}
		// SETTING-6: the same strings as on the wire, a bare number refused.
		d, err := msp.ParseDuration(text)
		if err != nil {
			return r.wrong(n, key, `it is no duration, a number followed by "ms", "s", "m" or "h"`)
		}
		*to = d.Std()
		return nil
	}
}

// ratio stores permits per GiB: an integer, or "n/d".
func (r *reader) ratio(to **big.Rat) taker {
	return func(n *yaml.Node, key string) error {
		var text string
		if v, err := integer(n); err == nil {
			text = strconv.FormatInt(v, 10)
		} else if text, err = r.scalar(n, key); err != nil {
			return err
		}
		num, den, fraction := strings.Cut(text, "/")
		a, errA := strconv.ParseUint(num, 10, 32)
		b, errB := uint64(1), error(nil)
		if fraction {
			b, errB = strconv.ParseUint(den, 10, 32)
		}
		if errA != nil || errB != nil || a == 0 || b == 0 {
			return r.wrong(n, key, `it is neither a positive integer nor "n/d"`)
		}
		*to = new(big.Rat).SetFrac(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
		return nil
	}
}

func (r *reader) level(to *slog.Level) taker {
	return func(n *yaml.Node, key string) error {
		text, err := r.scalar(n, key)
		if err != nil {
			return err
		}
		level, ok := ParseLevel(text)
		if !ok {
			return r.wrong(n, key, "it is none of trace, debug, info, warn, error and off")
		}
		*to = level
		return nil
	}
}

// LevelTrace and LevelOff are below and above every level that slog names.
const (
	LevelTrace = slog.LevelDebug - 4
	LevelOff   = slog.LevelError + 100
)

// ParseLevel reads a log level's name, in either case.
func ParseLevel(name string) (slog.Level, bool) {
	level, ok := map[string]slog.Level{
		"trace": LevelTrace, "debug": slog.LevelDebug, "info": slog.LevelInfo,
		"warn": slog.LevelWarn, "warning": slog.LevelWarn, "error": slog.LevelError, "off": LevelOff,
	}[strings.ToLower(name)]
	return level, ok
}

// program stores the argument list of a module's program.
func (r *reader) program(to map[string][]string, name string) taker {
	return func(n *yaml.Node, key string) error {
		if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
			return r.wrong(n, key, "it is not a list of a program and its arguments")
		}
		var argv []string
		for i, item := range n.Content {
			text, err := r.scalar(resolve(item), fmt.Sprintf("%s[%d]", key, i))
			if err != nil {
				return err
			}
			argv = append(argv, text)
		}
		if argv[0] == "" {
			return r.wrong(n, key, "it names no program")
		}
		to[name] = argv
		return nil
	}
}

// expand replaces ${exeDir}, ${genvmVersion} and ${ENV[NAME]}. What they stand
// for is not expanded again.
func expand(text string, s Source) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New(`"${" is not closed by "}"`)
		}
		env, isEnv := strings.CutPrefix(name, "ENV[")
		switch {
		case name == "exeDir":
			b.WriteString(s.ExeDir)
		case name == "genvmVersion":
			b.WriteString(s.Version)
		case isEnv && strings.HasSuffix(env, "]"):
			if s.Environ != nil {
				b.WriteString(s.Environ(strings.TrimSuffix(env, "]"))) // SETTING-5: unset is empty
			}
		default:
			return "", fmt.Errorf("%q stands for nothing: use ${exeDir}, ${genvmVersion} or ${ENV[NAME]}", "${"+name+"}")
		}
		text = after
	}
}
