package httpapi

import (
	"errors"
	"math"
	"net/url"
	"strconv"
	"strings"

	"microvms/agentd/internal/files"
)

// Refusals of a query, as the answer words them.
var (
	errNoPath     = errors.New("path is missing")
	errPathTwice  = errors.New("path is there twice")
	errPathCoding = errors.New("path is no query value: a percent sign without two hexadecimal digits behind it")
	errPathNUL    = errors.New("path holds a NUL byte")
	errBadLine    = errors.New("start_line and end_line are decimal numbers, each at most once")
	errZeroLine   = errors.New("start_line is 0, and lines are counted from 1")
	errEmptyRange = errors.New("end_line is before start_line")
)

// values reads the keys of a form-urlencoded query that a route knows and
// ignores all others. A known key that is there twice, or that does not decode,
// is reported by bad, and got holds it only if it is there twice.
func values(query string, known ...string) (got map[string]string, bad string) {
	got = map[string]string{}
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		if err != nil {
			continue
		}
		for _, k := range known {
			if name != k {
				continue
			}
			if _, twice := got[k]; twice {
				return got, k
			}
			text, err := url.QueryUnescape(value)
			if err != nil {
				return got, k
			}
			got[k] = text
		}
	}
	return got, ""
}

func pathOf(got map[string]string, bad string) (string, error) {
	path, there := got["path"]
	switch {
	case bad == "path" && there:
		return "", errPathTwice
	case bad == "path":
		return "", errPathCoding
	case strings.IndexByte(path, 0) >= 0:
		return "", errPathNUL
	case path == "":
		return "", errNoPath
	}
	return path, nil
}

// parsePath reads the query of a route that knows only the path.
func parsePath(query string) (string, error) { return pathOf(values(query, "path")) }

// parseRead reads the query of GET /v1/fs/file.
func parseRead(query string) (path string, w files.Window, err error) {
	got, bad := values(query, "path", "start_line", "end_line")
	if path, err = pathOf(got, bad); err != nil {
		return "", w, err
	}
	if bad != "" {
		return "", w, errBadLine
	}
	if w.First, err = parseLine(got, "start_line", 1); err != nil {
		return "", w, err
	}
	if w.Last, err = parseLine(got, "end_line", math.MaxUint64); err != nil {
		return "", w, err
	}
	// FS-4: refused before the file is opened, so that a wrong range reads the
	// same whatever is there.
	switch {
	case w.First == 0:
		return "", w, errZeroLine
	case w.Last < w.First:
		return "", w, errEmptyRange
	}
	return path, w, nil
}

func parseLine(got map[string]string, key string, otherwise uint64) (uint64, error) {
	text, there := got[key]
	if !there {
		return otherwise, nil
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, errBadLine
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errBadLine
	}
	return n, nil
}

// parseWrite reads the query of PUT /v1/fs/file.
func parseWrite(query string) (path string, mode uint32, err error) {
	got, bad := values(query, "path", "mode")
	if path, err = pathOf(got, bad); err != nil {
		return "", 0, err
	}
	text, there := got["mode"]
	switch {
	case bad != "":
		return "", 0, files.ErrBadMode
	case !there:
		return path, files.DefaultMode, nil
	}
	mode, err = files.ParseMode(text)
	return path, mode, err
}
