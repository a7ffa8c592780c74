package main

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"microvms/agentd"
)

// settings is what the environment says.
type settings struct {
	config agentd.Config
	port   uint16
	level  slog.Level
	// dropCapabilities asks that children inherit fewer capabilities.
	dropCapabilities bool
}

// warning is a setting that keeps its default. It never quotes the value: a
// variable may hold anything.
type warning struct{ variable, reason string }

// off is above every level in use.
const off = slog.LevelError + 100

// readSettings reads AGENTD_* variables (wire facts, section 3). What cannot
// be read keeps its default and gives a warning, because a daemon that does
// not boot is a VM that cannot be reached; only AGENTD_DROP_EXEC_CAPABILITIES
// is an error, because a guess there would weaken the VM.
func readSettings(environ []string) (settings, []warning, error) {
	r := reader{values: map[string]string{}}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, "AGENTD_") {
			if _, twice := r.values[name]; !twice { // the first wins, as in getenv
				r.values[name] = value
			}
		}
	}
	drop, err := r.dropCapabilities()
	if err != nil {
		return settings{}, nil, err
	}
	s := settings{port: 9000, level: r.logLevel(), dropCapabilities: drop}
	if port, ok := r.integer("AGENTD_PORT", 16); ok {
		s.port = uint16(port)
	}
	s.config.Environ = environ
	l := &s.config.Limits
	r.size("AGENTD_MAX_BODY_BYTES", func(n int64) { l.MaxBodyBytes = n })
	r.size("AGENTD_MAX_OUTPUT_BYTES", func(n int64) { l.MaxOutputBytes = int(n) })
	r.size("AGENTD_STREAM_BUFFER_BYTES", func(n int64) { l.StreamBufferBytes = int(n) })
	r.size("AGENTD_MAX_STDIN_WRITE_BYTES", func(n int64) { l.MaxStdinWriteBytes = int(n) })
	r.size("AGENTD_DISK_RESERVE_BYTES", func(n int64) { l.DiskReserveBytes = n })
	r.seconds("AGENTD_OUTPUT_LINGER_SECS", &l.OutputLinger)
	r.seconds("AGENTD_EXEC_TTL_SECS", &l.ExecTTL)
	r.seconds("AGENTD_SSE_KEEPALIVE_SECS", &l.SSEKeepalive)
	if n, ok := r.integer("AGENTD_HOOK_HANDLER_TIMEOUT_SECS", 64); ok {
		// HOOK-21: below the platform's limit of a minute for a hook, whatever is asked for.
		l.HookHandlerTimeout = time.Duration(min(max(n, 1), 55)) * time.Second
	}
	s.config.RepairIdentity = r.flag("AGENTD_REPAIR_IDENTITY", true)
	if user, ok := r.values["AGENTD_DEFAULT_USER"]; ok {
		s.config.DefaultUser = &user // set but empty is not unset
	}
	s.config.PreserveImageUser = r.values["AGENTD_PRESERVE_IMAGE_USER"] == "1"
	return s, r.warnings, nil
}

type reader struct {
	values   map[string]string
	warnings []warning
}

func (r *reader) warn(variable, reason string) {
	// PROG-2: the name and never the value, which may be a secret put into the wrong variable.
	r.warnings = append(r.warnings, warning{variable, reason})
}

// integer reads decimal digits with an optional plus, within the bits of the
// type. It reports false when the default stays.
func (r *reader) integer(variable string, bits int) (uint64, bool) {
	value, ok := r.values[variable]
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(value, "+"), 10, bits)
	if err != nil {
		// PROG-1: the default stays, because a daemon that does not boot is a VM that nobody reaches.
		r.warn(variable, fmt.Sprintf("not an unsigned integer of %d bits", bits))
		return 0, false
	}
	return n, true
}

// size hands on a number in the form of agentd.Limits, where zero is the
// default and less is none. Numbers beyond its range are cut to it.
func (r *reader) size(variable string, set func(int64)) {
	n, ok := r.integer(variable, 64)
	switch {
	case ok && n == 0:
		set(-1)
	case ok:
		set(int64(min(n, math.MaxInt)))
	}
}

// seconds reads whole seconds.
func (r *reader) seconds(variable string, d *time.Duration) {
	r.size(variable, func(n int64) {
		if n < 0 {
			*d = -1
			return
		}
		*d = time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second
	})
}

// flag reads a boolean word.
func (r *reader) flag(variable string, otherwise bool) bool {
	value, ok := r.values[variable]
	if !ok {
		return otherwise
	}
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "1", "true", "yes", "on":
		return true
	case "0", "false", "no", "off":
		return false
	}
	r.warn(variable, "not a boolean word")
	return otherwise
}

func (r *reader) logLevel() slog.Level {
	value, ok := r.values["AGENTD_LOG"]
	if !ok {
		return slog.LevelInfo
	}
	switch strings.ToLower(value) {
	case "trace", "debug":
		return slog.LevelDebug
	case "info":
		return slog.LevelInfo
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	case "off":
		return off
	}
	r.warn("AGENTD_LOG", "not a log level")
	return slog.LevelInfo
}

// dropCapabilities is strict: a guess in either direction would give commands
// what the image withholds, or withhold what it gives.
func (r *reader) dropCapabilities() (bool, error) {
	const variable = "AGENTD_DROP_EXEC_CAPABILITIES"
	value, ok := r.values[variable]
	switch {
	case !ok, value == "false", value == "0":
		return false, nil
	case value == "true", value == "1":
		return true, nil
	}
	// PROG-3: a guess either way would be wrong for somebody's VM.
	return false, fmt.Errorf("%s is neither true, false, 1 nor 0; refusing to guess", variable)
}
