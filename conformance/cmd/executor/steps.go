package main

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// executor is one run of the program.
type executor struct {
	options
	argv           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	input          []byte // what standard input held
	host0          net.Conn
	answered       bool // a result was sent, or none is to be
}

// takers do the steps. Each returns what a control socket is answered.
var takers = map[string]func(e *executor, value string) (string, error){
	"stdout":       func(e *executor, v string) (string, error) { return "", writeTo(e.stdout, []byte(v)) },
	"stderr":       func(e *executor, v string) (string, error) { return "", writeTo(e.stderr, []byte(v)) },
	"stdout-bytes": func(e *executor, v string) (string, error) { return "", writeMany(e.stdout, v) },
	"stderr-bytes": func(e *executor, v string) (string, error) { return "", writeMany(e.stderr, v) },
	"stdout-hex":   func(e *executor, v string) (string, error) { return "", writeHex(e.stdout, v) },
	"write":        (*executor).writeBase64,
	"log":          func(e *executor, v string) (string, error) { return "", e.writeLog([]byte(v + "\n")) },
	"log-raw":      func(e *executor, v string) (string, error) { return "", e.logHex(v) },
	"log-bytes":    (*executor).logBytes,
	"log-lines":    (*executor).logLines,
	"stdin":        (*executor).stdinStep,
	"result":       (*executor).resultStep,
	"result-bytes": (*executor).resultBytes,
	"claim":        (*executor).claim,
	"raw":          (*executor).rawStep,
	"recv":         (*executor).recvStep,
	"resolve":      func(e *executor, v string) (string, error) { return e.ask(v, e.resolve) },
	"nested":       func(e *executor, v string) (string, error) { return e.ask(v, e.nested) },
	"host1-eof":    (*executor).host1EOF,
	"dial":         func(e *executor, _ string) (string, error) { return "", e.dial() },
	"argv":         func(e *executor, _ string) (string, error) { return e.tell(strings.Join(e.argv, "\n")) },
	"fds":          func(e *executor, _ string) (string, error) { return e.fds() },
	"group":        func(e *executor, _ string) (string, error) { return e.tell(strconv.Itoa(syscall.Getpgrp())) },
	"cwd":          (*executor).cwd,
	"env":          func(e *executor, v string) (string, error) { return e.tell(os.Getenv(v)) },
	"module":       (*executor).module,
	"fork":         func(e *executor, v string) (string, error) { return e.fork(v, false) },
	"fork-escaped": func(e *executor, v string) (string, error) { return e.fork(v, true) },
	"ignore":       func(*executor, string) (string, error) { signal.Ignore(syscall.SIGTERM); return "", nil },
	"close":        (*executor).closeStep,
	"gate":         (*executor).gate,
	"hang":         (*executor).hang,
	"signal":       (*executor).signalStep,
	"exit":         (*executor).exit,
}

// hang waits for a signal. The runtime ends a program whose every goroutine is
// blocked for good, so it sleeps.
func (*executor) hang(string) (string, error) {
	for {
		time.Sleep(time.Hour)
	}
}

func init() {
	takers["control"] = (*executor).control // it takes steps itself
}

// take does one step, "word=value" or "word value".
func (e *executor) take(step string) (string, error) {
	word, value := step, ""
	if i := strings.IndexAny(step, "= "); i >= 0 {
		word, value = step[:i], step[i+1:]
	}
	taker, ok := takers[word]
	if !ok {
		return "", fmt.Errorf("unknown step %q", word)
	}
	return taker(e, value)
}

func writeTo(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

func writeHex(w io.Writer, text string) error {
	b, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	return writeTo(w, b)
}

// writeMany prints n letters in pieces.
func writeMany(w io.Writer, text string) error {
	n, err := count(text)
	if err != nil {
		return err
	}
	piece := make([]byte, 26*2048)
	for i := range piece {
		piece[i] = 'a' + byte(i%26)
	}
	for n > 0 {
		k := min(n, len(piece))
		if err := writeTo(w, piece[:k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// writeBase64 is the form of package conformance/child: "write stdout aGk=".
func (e *executor) writeBase64(v string) (string, error) {
	stream, text, _ := strings.Cut(v, " ")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", err
	}
	if stream == "stderr" {
		return "", writeTo(e.stderr, data)
	}
	return "", writeTo(e.stdout, data)
}

func (e *executor) writeLog(b []byte) error {
	if e.log == nil {
		return errors.New("there is no log descriptor")
	}
	return writeTo(e.log, b)
}

func (e *executor) logHex(v string) error {
	b, err := hex.DecodeString(v)
	if err != nil {
		return err
	}
	return e.writeLog(b)
}

func (e *executor) logLines(v string) (string, error) {
	n, err := count(v)
	if err != nil {
		return "", err
	}
	var b []byte
	for i := 1; i <= n; i++ {
		b = fmt.Appendf(b, "{\"n\":%d,\"level\":\"debug\"}\n", i)
	}
	return "", e.writeLog(b)
}

// logBytes logs letters without a line end.
func (e *executor) logBytes(v string) (string, error) {
	if e.log == nil {
		return "", errors.New("there is no log descriptor")
	}
	return "", writeMany(e.log, v)
}

func (e *executor) readStdin() (err error) {
	e.input, err = io.ReadAll(e.stdin)
	return err
}

func (e *executor) stdinStep(v string) (string, error) {
	switch v {
	case "read":
		return "", e.readStdin()
	case "print":
		return e.tell(hex.EncodeToString(e.input))
	}
	return "", fmt.Errorf("stdin=%s is no step here", v)
}

func (e *executor) resultStep(v string) (string, error) {
	if v == "none" {
		e.answered = true
		return "", nil
	}
	blob, err := hex.DecodeString(v)
	if err != nil {
		return "", err
	}
	return "", e.consumeResult(blob)
}

func (e *executor) resultBytes(v string) (string, error) {
	n, err := count(v)
	if err != nil {
		return "", err
	}
	return "", e.consumeResult(make([]byte, n))
}

func (e *executor) claim(v string) (string, error) {
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || e.host1 == nil {
		return "", errors.Join(err, errNoHost1)
	}
	e.answered = true
	return "", writeTo(e.host1, []byte{methodConsumeResult, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
}

func (e *executor) rawStep(v string) (string, error) {
	if e.host1 == nil {
		return "", errNoHost1
	}
	return "", writeHex(e.host1, v)
}

func (e *executor) recvStep(v string) (string, error) {
	n, err := count(v)
	if err != nil {
		return "", err
	}
	b, err := e.recv(n)
	if err != nil {
		return "", err
	}
	return e.tell(hex.EncodeToString(b))
}

// ask sends bytes by one of host 1's methods and prints the answer.
func (e *executor) ask(v string, method func([]byte) ([]byte, error)) (string, error) {
	args, err := hex.DecodeString(v)
	if err != nil {
		return "", err
	}
	answer, err := method(args)
	if err != nil {
		return "", err
	}
	return e.tell(hex.EncodeToString(answer))
}

// host1EOF waits for the end of host 1 and drops what comes before it.
func (e *executor) host1EOF(string) (string, error) {
	if e.host1 == nil {
		return "", errNoHost1
	}
	_, err := io.Copy(io.Discard, e.host1)
	e.answered = true // nobody takes a result any more
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil // bytes that the manager did not read were left behind
	}
	return "", err
}

// tell prints a line, and gives it to the control socket when it is one line.
func (e *executor) tell(s string) (string, error) {
	return strings.ReplaceAll(s, "\n", " "), writeTo(e.stdout, []byte(s+"\n"))
}

func (e *executor) cwd(string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return e.tell(dir)
}

// fds prints the open descriptors by number, each with the kind of what it is.
func (e *executor) fds() (string, error) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(0)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, name := range names {
		link, err := os.Readlink(filepath.Join("/proc/self/fd", name))
		if err != nil || name == strconv.Itoa(int(dir.Fd())) {
			continue
		}
		kind, _, _ := strings.Cut(link, ":")
		if strings.HasPrefix(link, "anon_inode:") || strings.HasPrefix(link, "/sys/fs/cgroup/") {
			continue // the runtime's own: its poller, and the limits that it follows
		}
		lines = append(lines, name+" "+kind)
	}
	slices.Sort(lines)
	return e.tell(strings.Join(lines, "\n"))
}

func (e *executor) module(v string) (string, error) {
	name, text, _ := strings.Cut(v, ",")
	f := e.llm
	if name == "web" {
		f = e.web
	}
	if f == nil {
		return "", fmt.Errorf("there is no module %q", name)
	}
	if err := writeTo(f, []byte(text+"\n")); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		return "", err
	}
	return e.tell(strings.TrimSuffix(line, "\n"))
}

func (e *executor) closeStep(v string) (string, error) {
	f, ok := map[string]*os.File{"stdout": os.Stdout, "stderr": os.Stderr, "log": e.log, "host1": e.host1}[v]
	if !ok || f == nil {
		return "", fmt.Errorf("there is no descriptor %q", v)
	}
	if v == "host1" {
		e.answered = true
	}
	return "", f.Close()
}

func (e *executor) signalStep(v string) (string, error) {
	n, err := count(v)
	if err != nil {
		return "", err
	}
	if err := syscall.Kill(os.Getpid(), syscall.Signal(n)); err != nil {
		return "", err
	}
	select {} // the signal is on its way
}

func (e *executor) exit(v string) (string, error) {
	n, err := count(v)
	if err != nil {
		return "", err
	}
	return "", exitError(n)
}

func count(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number from 0", text)
	}
	return n, nil
}
