package accounts

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Snapshot returns the image's environment: the daemon's startup environment,
// in the form of os.Environ, without names that begin with AGENTD_ and without
// entries that are not UTF-8. It is taken once, before the daemon serves, so
// the token can never be in it.
func Snapshot(environ []string) map[string]string {
	image := map[string]string{}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		// AGENTD-12: left out by name, because the daemon's settings are no child's.
		if !ok || name == "" || strings.HasPrefix(name, "AGENTD_") || !utf8.ValidString(entry) {
			continue
		}
		if _, twice := image[name]; !twice { // the first wins, as in getenv
			image[name] = value
		}
	}
	return image
}

// Layers is a child's environment before it is flattened. A later layer wins
// for each name; nothing else reaches a child.
type Layers struct {
	Image    map[string]string // the snapshot, when the request inherits it
	Identity map[string]string // HOME, USER, LOGNAME of the user's row
	Launch   map[string]string // sent with the bootstrap
	Request  map[string]string // sent with the start
}

// Flatten returns the map that the child gets. It is fresh and never nil.
func (l Layers) Flatten() map[string]string {
	env := map[string]string{}
	// EXEC-12: in rising precedence: a later copy overwrites.
	for _, layer := range []map[string]string{l.Image, l.Identity, l.Launch, l.Request} {
		maps.Copy(env, layer)
	}
	return env
}

// Entries returns env as sorted NAME=value entries. It is never nil: a nil
// environment would be the daemon's own.
func Entries(env map[string]string) []string {
	entries := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		entries = append(entries, name+"="+env[name])
	}
	return entries
}

// BadEntry returns the name of an entry that no environment can hold: an empty
// name, '=' or NUL in a name, NUL in a value. Of several it is the first in
// order of names.
func BadEntry(env map[string]string) (name string, bad bool) {
	for n, v := range env {
		if n != "" && !strings.ContainsAny(n, "=\x00") && strings.IndexByte(v, 0) < 0 {
			continue
		}
		if !bad || n < name {
			name, bad = n, true
		}
	}
	return name, bad
}
