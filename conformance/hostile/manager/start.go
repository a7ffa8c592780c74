package manager

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a manager's command that runs. Its methods may be called
// concurrently.
type Process struct {
	Address string // host and port, or the path of a unix socket

	dir     string
	shared  bool // the folder is not this one's alone
	cmd     *exec.Cmd
	drained chan struct{}
	end     sync.Once
	err     error

	mu  sync.Mutex
	log bytes.Buffer
}

// The spans within which a manager must listen, and end after SIGTERM.
const (
	startLimit = 30 * time.Second
	stopLimit  = 30 * time.Second
)

// Start runs a manager's command on a free loopback port, with a folder of
// executors that holds a copy of program, the demonstration executor, as
// [Executor], and permits of which each run takes one. The command takes the flags
// of agentd manager and logs the JSON line with msg "listening" and its addr. The
// caller stops it.
func Start(ctx context.Context, command, program string, permits int) (*Process, error) {
	dir, err := os.MkdirTemp("", "hostile-manager-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder: %w", err)
	}
	p := &Process{dir: dir, drained: make(chan struct{})}
	if err := p.start(ctx, command, program, permits); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start the manager %q: %w", command, err), os.RemoveAll(dir))
	}
	return p, nil
}

// StartIn is Start on the socket "s" of a folder that the caller keeps, so that
// managers can follow one another at one address.
func StartIn(ctx context.Context, dir, command, program string, permits int) (*Process, error) {
	p := &Process{dir: dir, shared: true, drained: make(chan struct{})}
	if err := p.start(ctx, command, program, permits); err != nil {
		return nil, fmt.Errorf("cannot start the manager %q: %w", command, err)
	}
	return p, nil
}

func (p *Process) start(ctx context.Context, command, program string, permits int) error {
	if err := Install(p.Executors(), Executor, program); err != nil {
		return err
	}
	file := filepath.Join(p.dir, "config.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "permits: {total: %d, sync: 1, nondet: 1}\nlog_level: debug\n", permits), 0o600); err != nil {
		return err
	}
	listen := []string{"--host", "127.0.0.1", "--port", "0"}
	if p.shared {
		listen = []string{"--socket", filepath.Join(p.dir, "s")}
	}
	p.cmd = exec.Command(command, append([]string{"manager", "--config", file, "--executors", p.Executors()}, listen...)...)
	p.cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr strings.Builder
	p.cmd.Stderr = &stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	found := make(chan string, 1)
	go p.read(out, found)
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	select {
	case p.Address = <-found:
	case <-ctx.Done():
	}
	if p.Address == "" {
		p.Kill()
		return fmt.Errorf("its log did not name its address: %s", stderr.String())
	}
	return nil
}

// Install copies a program into a folder of executors, under a name, unless one
// of that name is there.
func Install(dir, name, program string) error {
	bin := filepath.Join(dir, name, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("cannot read the executor: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(bin, "genvm"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// read keeps the log and finds the address, empty when the log ends before.
func (p *Process) read(out io.Reader, found chan<- string) {
	defer close(p.drained)
	defer close(found)
	lines := bufio.NewReader(out)
	for told := false; ; {
		line, err := lines.ReadBytes('\n')
		p.mu.Lock()
		p.log.Write(line)
		p.mu.Unlock()
		var entry struct{ Msg, Addr string }
		if !told && json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
			told = true
			found <- entry.Addr
		}
		if err != nil {
			return
		}
	}
}

// Executors is the folder of executors.
func (p *Process) Executors() string { return filepath.Join(p.dir, "executors") }

// PID is the manager's process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns what was logged so far.
func (p *Process) Log() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.log.Bytes())
}

// Stop asks the manager to end with SIGTERM and kills it when it does not. It
// returns an error unless the manager ended by itself with status 0. Further
// calls return the same.
func (p *Process) Stop() error {
	p.finish(syscall.SIGTERM)
	return p.err
}

// Kill ends the manager by SIGKILL and waits for its end.
func (p *Process) Kill() { p.finish(syscall.SIGKILL) }

func (p *Process) finish(signal syscall.Signal) {
	p.end.Do(func() {
		_ = p.cmd.Process.Signal(signal) // one that is gone already is found by Wait
		kill := time.AfterFunc(stopLimit, func() { _ = p.cmd.Process.Kill() })
		<-p.drained
		p.err = p.cmd.Wait()
		if !kill.Stop() {
			p.err = fmt.Errorf("the manager did not end within %s of SIGTERM", stopLimit)
		}
		if p.shared {
			return
		}
		if err := os.RemoveAll(p.dir); p.err == nil {
			p.err = err
		}
	})
}
