package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"

	"microvms/agentd/trace"
)

// traceFile writes each transition as one JSON line, numbered in the order of
// effects:
//
//	{"seq":1,"action":"ExecStart","request":7,"exec":"e1","attrs":{"known":false}}
//
// request, exec, reader, member, run, conn and attrs are left out where they do
// not apply.
type traceFile struct {
	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer
	seq  uint64
	line []byte
	err  error // the first failure; later events are dropped
}

// openTrace creates the file, readable by its owner alone.
func openTrace(path string) (*traceFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot record transitions: %w", err)
	}
	return &traceFile{file: f, w: bufio.NewWriter(f)}, nil
}

// Record appends the event. It is called with the lock held that guards the
// transition, so the order of lines is the order of effects.
func (t *traceFile) Record(e trace.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	// PROG-6: numbered under the lock, so that a hole in the numbers is a lost line.
	t.seq++
	b := append(t.line[:0], `{"seq":`...)
	b = strconv.AppendUint(b, t.seq, 10)
	b = appendText(append(b, `,"action":`...), string(e.Action))
	if e.Request != 0 {
		b = strconv.AppendUint(append(b, `,"request":`...), e.Request, 10)
	}
	if e.Exec != "" {
		b = appendText(append(b, `,"exec":`...), e.Exec)
	}
	if e.Reader != 0 {
		b = strconv.AppendUint(append(b, `,"reader":`...), e.Reader, 10)
	}
	if e.Member != 0 {
		b = strconv.AppendUint(append(b, `,"member":`...), e.Member, 10)
	}
	if e.Run != 0 {
		b = strconv.AppendUint(append(b, `,"run":`...), e.Run, 10)
	}
	if e.Conn != 0 {
		b = strconv.AppendUint(append(b, `,"conn":`...), e.Conn, 10)
	}
	// PROG-7: attributes are numbers and fixed words; nothing hands a body or a token to a recorder.
	for i, a := range e.Attrs {
		if i == 0 {
			b = append(b, `,"attrs":{`...)
		} else {
			b = append(b, ',')
		}
		b = append(appendText(b, a.Key), ':')
		b = appendValue(b, a.Value)
		if i == len(e.Attrs)-1 {
			b = append(b, '}')
		}
	}
	b = append(b, "}\n"...)
	t.line = b
	if _, t.err = t.w.Write(b); t.err == nil {
		// Each line goes out at once: a daemon that is killed must leave what
		// it did until then.
		t.err = t.w.Flush()
	}
}

func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic("agentd: internal error: cannot encode a string: " + err.Error())
	}
	return append(b, text...)
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case string:
		return appendText(b, v)
	}
	return appendText(b, fmt.Sprint(v))
}

// Close flushes and closes the file and returns the first failure.
func (t *traceFile) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.file.Close(); t.err == nil {
		t.err = err
	}
	if t.err != nil {
		return fmt.Errorf("cannot record transitions: %w", t.err)
	}
	return nil
}
