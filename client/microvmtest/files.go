package microvmtest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"microvms/agentd/api"
)

// known reads the keys of a query that a route knows. It reports false for one
// that is there twice, and for a path that no route takes.
func known(r *http.Request, keys ...string) (map[string]string, bool) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	got := map[string]string{}
	for _, key := range append(keys, "path") {
		switch len(query[key]) {
		case 0:
		case 1:
			got[key] = query[key][0]
		default:
			return nil, false
		}
	}
	return got, err == nil && got["path"] != "" && strings.IndexByte(got["path"], 0) < 0
}

// refuseFile answers as the file routes do, in plain text.
func refuseFile(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, why+"\n")
}

func (s *Server) getFile(w http.ResponseWriter, r *http.Request) {
	query, ok := known(r, "start_line", "end_line")
	if !ok {
		refuseFile(w, http.StatusBadRequest, "path is missing, there twice, or holds a NUL byte")
		return
	}
	// CLIENT-33: before the file is looked for, as in the daemon: what passes here must pass there.
	first, ok1 := lineOf(query, "start_line", 1)
	last, ok2 := lineOf(query, "end_line", math.MaxUint64)
	if !ok1 || !ok2 || first == 0 || last < first {
		refuseFile(w, http.StatusBadRequest, "start_line and end_line name no range of lines")
		return
	}
	s.disk.Lock()
	_, _, n, err := s.root.find(query["path"], false)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	var data []byte
	folder := err == nil && n.mode.IsDir()
	if err == nil {
		data = n.data
	}
	s.disk.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		refuseFile(w, http.StatusNotFound, err.Error())
	case err != nil:
		refuseFile(w, http.StatusInternalServerError, err.Error())
	case folder:
		refuseFile(w, http.StatusBadRequest, "it is a folder")
	default:
		w.Header().Set("Content-Type", api.MediaBytes)
		w.Write(window(data, first, last))
	}
}

func lineOf(query map[string]string, key string, otherwise uint64) (uint64, bool) {
	text, there := query[key]
	if !there {
		return otherwise, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && text[0] != '+'
}

// window cuts the lines from first to last out of data, both included.
func window(data []byte, first, last uint64) []byte {
	var out []byte
	for line := uint64(1); len(data) > 0 && line <= last; line++ {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		if line >= first {
			out = append(out, data[:end]...)
		}
		data = data[end:]
	}
	return out
}

func (s *Server) putFile(w http.ResponseWriter, r *http.Request) {
	query, ok := known(r, "mode")
	if !ok {
		refuseFile(w, http.StatusBadRequest, "path is missing, there twice, or holds a NUL byte")
		return
	}
	mode := fs.FileMode(0o644)
	if text, there := query["mode"]; there {
		if mode, ok = modeOf(text); !ok {
			refuseFile(w, http.StatusBadRequest, "mode is not an octal number of at most 07777")
			return
		}
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		refuseFile(w, http.StatusBadRequest, "the body was cut short")
		return
	}
	s.disk.Lock()
	defer s.disk.Unlock()
	if err := s.writeLocked(query["path"], data, mode); err != nil {
		refuseFile(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// modeOf reads an octal mode, with an optional 0o and blanks around.
func modeOf(text string) (fs.FileMode, bool) {
	text = strings.TrimSpace(text)
	if len(text) > 1 && (text[:2] == "0o" || text[:2] == "0O") {
		text = text[2:]
	}
	if strings.Trim(text, "01234567") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 8, 12)
	return kernelMode(n), err == nil
}

// kernelMode is a mode of the kernel as Go has it.
func kernelMode(n uint64) fs.FileMode {
	mode := fs.FileMode(n & 0o777)
	for bit, special := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			mode |= special
		}
	}
	return mode
}
