package microvmtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"path"
	"strings"
	"time"

	"microvms/agentd/api"
)

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var req api.StartRequest
	if problem := readJSON(r, &req); problem != "" {
		refuse(w, api.MalformedRequest, problem)
		return
	}
	if problem := malformed(&req); problem != "" {
		refuse(w, api.MalformedRequest, problem)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A known id answers before any name is resolved.
	if s.execs[req.ExecID] == nil {
		program, code, detail := s.resolve(&req)
		if code != "" {
			refuse(w, code, detail)
			return
		}
		s.spawnLocked(&req, program)
	}
	answer(w, api.StartResponse{ExecID: req.ExecID, Phase: api.PhaseRunning})
}

// malformed says what makes a decoded start request invalid.
func malformed(req *api.StartRequest) string {
	switch {
	case req.ExecID == "":
		return "exec_id must not be empty"
	case req.TimeoutSec != nil && (*req.TimeoutSec <= 0 || math.IsInf(*req.TimeoutSec, 0)):
		return "timeout_sec must be positive and finite"
	case req.Command == nil:
		return "command is required"
	case req.Shell.IsNamed && req.Shell.Name == "":
		return "shell must not be an empty string"
	case len(req.Command) == 0 && req.Shell.IsZero():
		return "command must not be empty without a shell"
	}
	return ""
}

// resolve finds the user, group, shell and program. The only known names are
// those of root and of sh.
func (s *Server) resolve(req *api.StartRequest) (Program, api.Code, string) {
	unknown := func(n *api.NameOrID) bool {
		return n != nil && n.IsName && n.Name != "root" && strings.Trim(n.Name, "0123456789") != ""
	}
	switch {
	case unknown(req.User):
		return nil, api.UnknownUser, req.User.Name
	case unknown(req.Group):
		return nil, api.UnknownGroup, req.Group.Name
	case req.Shell.IsNamed && req.Shell.Name != "sh" && req.Shell.Name != "/bin/sh":
		return nil, api.UnknownShell, req.Shell.Name
	case req.PowerOffOnExit:
		return nil, api.PowerOffUnavailable, "the daemon lacks CAP_SYS_BOOT"
	}
	name := "sh"
	if req.Shell.IsZero() {
		name = path.Base(req.Command[0])
	}
	program := s.Programs[name]
	if program == nil {
		return nil, api.SpawnFailed, "no such program: " + name
	}
	return program, "", ""
}

func (s *Server) spawnLocked(req *api.StartRequest, program Program) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &exec{id: req.ExecID, pid: uint32(1000 + len(s.order)), startedAt: time.Now(), reap: req.ReapGroupOnExit,
		wantStdin: req.Stdin, out: newOutput(s.HeadBytes, s.RingBytes), stdin: &input{}, cancel: cancel, done: make(chan struct{})}
	e.stdin.r, e.stdin.w = io.Pipe()
	e.process = &Process{Args: req.Command, Env: req.Env, Stdin: e.stdin.r, Context: ctx, term: make(chan struct{}),
		Stdout: e.out.writer(api.StreamStdout), Stderr: e.out.writer(api.StreamStderr)}
	if !req.Shell.IsZero() {
		e.process.Args, e.process.Script = []string{"sh"}, strings.Join(req.Command, "\n")
	}
	if req.Cwd != nil {
		e.process.Dir = *req.Cwd
	}
	if !req.Stdin {
		e.stdin.w.Close()
	}
	var timeout time.Duration
	if req.TimeoutSec != nil {
		timeout = time.Duration(min(*req.TimeoutSec, 1e9) * float64(time.Second))
	}
	s.execs[e.id] = e
	s.order = append(s.order, e)
	s.run(e, program, timeout)
}

func (s *Server) stdin(w http.ResponseWriter, r *http.Request) {
	var req api.StdinRequest
	if problem := readJSON(r, &req); problem != "" {
		refuse(w, api.MalformedRequest, problem)
		return
	}
	e := s.find(w, r)
	if e == nil {
		return
	}
	if !e.wantStdin {
		refuse(w, api.StdinNotRequested, e.id)
		return
	}
	eof := req.Signal != nil
	if eof && *req.Signal != api.SignalEOF {
		refuse(w, api.MalformedRequest, "unknown signal")
		return
	}
	var data []byte
	if req.DataB64 != nil {
		var err error
		if data, err = base64.StdEncoding.Strict().DecodeString(*req.DataB64); err != nil {
			refuse(w, api.MalformedRequest, "data_b64 is not base64")
			return
		}
	}
	if len(data) > 1<<20 {
		refuse(w, api.StdinWriteTooLarge, "over 1048576 bytes")
		return
	}
	if code := s.feed(e, data, eof); code != "" {
		refuse(w, code, e.id)
		return
	}
	answer(w, api.StdinResponse{ExecID: e.id, Written: uint(len(data)), EOF: eof})
}

// feed writes to a command's input; the returned code says why it could not.
func (s *Server) feed(e *exec, data []byte, eof bool) api.Code {
	e.stdin.mu.Lock()
	closed := e.stdin.closed
	e.stdin.mu.Unlock()
	if closed {
		return api.StdinClosed
	}
	if len(data) > 0 {
		wrote := make(chan error, 1)
		go func() {
			_, err := e.stdin.w.Write(data)
			wrote <- err
		}()
		timer := time.NewTimer(s.StdinTimeout)
		defer timer.Stop()
		select {
		case err := <-wrote:
			if err != nil {
				return api.StdinClosed
			}
		case <-timer.C:
			return api.StdinWriteTimeout
		}
	}
	if eof {
		e.stdin.mu.Lock()
		e.stdin.closed = true
		e.stdin.mu.Unlock()
		e.stdin.w.Close()
	}
	return ""
}

// readJSON decodes a body and says what is wrong with it, if anything.
func readJSON(r *http.Request, v any) string {
	if media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); media != api.MediaJSON && !strings.HasSuffix(media, "+json") {
		return "Content-Type must be application/json"
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "cannot read the body"
	}
	if err := json.Unmarshal(body, v); err != nil {
		return "not the expected JSON"
	}
	return ""
}
