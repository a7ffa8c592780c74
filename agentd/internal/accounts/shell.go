package accounts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"microvms/agentd/api"
)

// FindShell returns the path of the shell that a start names. A name with a
// slash must be an absolute path. A bare name is looked for on the child's
// PATH, then on the image's, then in /bin and /usr/bin; entries that are not
// absolute are passed over, because a shell that depends on the working
// directory is the caller's files' to choose. The first executable regular file
// wins. The error names the shell; the empty name is the caller's to refuse.
func FindShell(name string, child, image map[string]string) (string, *api.Error) {
	if strings.Contains(name, "/") {
		// ACCOUNT-9: a relative path would be the working directory's to choose.
		if filepath.IsAbs(name) && executableFile(name) {
			return name, nil
		}
		return "", unknownShell(name, "is not the absolute path of an executable file")
	}
	// AGENTD-14: in this order, so that the caller's PATH decides before the image's.
	dirs := strings.Split(child["PATH"], ":")
	dirs = append(dirs, strings.Split(image["PATH"], ":")...)
	for _, dir := range append(dirs, "/bin", "/usr/bin") {
		if path := dir + "/" + name; filepath.IsAbs(dir) && executableFile(path) {
			return path, nil
		}
	}
	// AGENTD-15: refused before the spawn; /bin/sh would run the script by
	// other rules than the ones it was written for.
	return "", unknownShell(name, "is not found as an executable file on the child's PATH, the image's PATH, /bin or /usr/bin")
}

func unknownShell(name, why string) *api.Error {
	return &api.Error{Code: api.UnknownShell, Detail: fmt.Sprintf("shell %s %s", quote(name), why)}
}

// executableFile reports whether path leads to a regular file with any execute
// bit.
func executableFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
