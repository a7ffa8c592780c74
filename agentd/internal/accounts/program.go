package accounts

import (
	"os"
	"path/filepath"
	"strings"
)

// DefaultPath is where a bare program name is looked for when the child's
// environment has no PATH.
const DefaultPath = "/usr/local/bin:/bin:/usr/bin"

// FindProgram returns the path to execute for argv[0]. A name with a slash is
// taken as it is and resolved after the change of directory. A bare name is
// looked for on the child's own PATH, never on the daemon's; an empty entry is
// the working directory. When nothing is found the result fails in the child
// with the error that the search met: the name as a path that does not exist,
// or the first match that is not executable.
func FindProgram(name string, env map[string]string, cwd string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	// EXEC-15: the child's own PATH, never the daemon's.
	path, ok := env["PATH"]
	if !ok {
		path = DefaultPath
	}
	denied := ""
	for _, dir := range strings.Split(path, ":") {
		candidate := dir + "/" + name
		if dir == "" {
			candidate = "./" + name
		}
		switch found, executable := look(candidate, cwd); {
		case executable:
			return candidate
		case found && denied == "":
			denied = candidate
		}
	}
	if denied != "" {
		return denied
	}
	return missing(path, name)
}

// missing is a path for a name that was found nowhere: the last place looked.
// Execution fails there with the kernel's own error.
func missing(path, name string) string {
	dirs := strings.Split(path, ":")
	if last := dirs[len(dirs)-1]; last != "" {
		return last + "/" + name
	}
	return "./" + name
}

// look reports whether a regular file is there, and whether any execute bit is
// set. A relative candidate is taken from the child's working directory.
func look(candidate, cwd string) (found, executable bool) {
	if !filepath.IsAbs(candidate) && cwd != "" {
		candidate = cwd + "/" + candidate
	}
	info, err := os.Stat(candidate)
	if err != nil || !info.Mode().IsRegular() {
		return false, false
	}
	return true, info.Mode()&0o111 != 0
}
