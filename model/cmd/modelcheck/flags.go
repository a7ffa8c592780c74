package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"microvms/model"
)

// size is a number of bytes on the command line.
type size uint64

// UnmarshalText parses "512MiB", "4G" or "1000000".
func (s *size) UnmarshalText(text []byte) error {
	in := strings.TrimSpace(string(text))
	number := strings.TrimRight(in, "abcikmgtABCIKMGT")
	unit := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(in, number), "B"), "i"))
	factor, ok := map[string]float64{"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(n > 0) || n*factor >= 1<<62 {
		return fmt.Errorf("cannot read the size %q; write a number with KiB, MiB, GiB or TiB, as in 512MiB", in)
	}
	*s = size(n * factor)
	return nil
}

// duration is a positive time.Duration on the command line.
type duration time.Duration

// UnmarshalText parses "30s".
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("cannot read the duration %q; write a positive number with a unit, as in 30s or 5m", text)
	}
	*d = duration(v)
	return nil
}

// options turns the flags into the library's options.
func (b bounds) options(stderr io.Writer) (model.Options, error) {
	if b.Workers < 0 || b.Depth < 0 {
		return model.Options{}, usage("--workers and --depth take numbers from 1")
	}
	o := model.Options{Workers: b.Workers, MaxDepth: b.Depth, MaxStates: b.MaxStates, MaxBytes: uint64(b.Memory), Timeout: time.Duration(b.Timeout), Exact: b.Exact}
	if b.Progress || isTerminal(stderr) {
		o.Progress = stderr
	}
	return o, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// target is a configuration that was named on the command line.
type target struct {
	suite model.Suite
	c     model.Case
}

func (t target) name() string { return t.suite.Name + ":" + t.c.Name() }

// find returns the configurations that MODEL[:CONFIG] names. config may come
// from a flag instead.
func find(suites []model.Suite, name, config string) ([]target, error) {
	modelName, inName, found := strings.Cut(name, ":")
	if found {
		if config != "" && config != inName {
			return nil, usage("%q and --config %s name two configurations; write one of them", name, config)
		}
		config = inName
	}
	for _, s := range suites {
		if s.Name != modelName {
			continue
		}
		var all []target
		var names []string
		for _, c := range s.Cases {
			if config == "" || c.Name() == config {
				all = append(all, target{s, c})
			}
			names = append(names, c.Name())
		}
		if len(all) == 0 {
			return nil, usage("model %q has no configuration %q; it has: %s", modelName, config, strings.Join(names, ", "))
		}
		return all, nil
	}
	var names []string
	for _, s := range suites {
		names = append(names, s.Name)
	}
	return nil, usage("there is no model %q; there are: %s", modelName, strings.Join(names, ", "))
}

// findOne is find for commands that work on one configuration.
func findOne(suites []model.Suite, name, config string) (target, error) {
	all, err := find(suites, name, config)
	if err != nil {
		return target{}, err
	}
	if len(all) > 1 {
		var names []string
		for _, t := range all {
			names = append(names, t.name())
		}
		return target{}, usage("model %q has several configurations; name one: %s", name, strings.Join(names, ", "))
	}
	return all[0], nil
}
