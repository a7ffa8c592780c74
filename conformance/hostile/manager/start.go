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
	Address string // host and port

	dir     string
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
// [Executor]. config is added to its configuration. The command takes the flags
// of agentd manager and logs the JSON line with msg "listening" and its addr. The
// caller stops it.
func Start(ctx context.Context, command, program, config string) (*Process, error) {
	dir, err := os.MkdirTemp("", "hostile-manager-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder: %w", err)
	}
	p := &Process{dir: dir, drained: make(chan struct{})}
	if err := p.start(ctx, command, program, config); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start the manager %q: %w", command, err), os.RemoveAll(dir))
	}
	return p, nil
}

func (p *Process) start(ctx context.Context, command, program, config string) error {
	if err := Install(p.Executors(), program); err != nil {
		return err
	}
	file := filepath.Join(p.dir, "config.yaml")
	if err := os.WriteFile(file, []byte("permits: {total: 64, sync: 1, nondet: 1}\nlog_level: debug\n"+config), 0o600); err != nil {
		return err
	}
	p.cmd = exec.Command(command, "manager", "--host", "127.0.0.1", "--port", "0", "--config", file, "--executors", p.Executors())
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

// Install copies the demonstration executor into a folder of executors.
func Install(dir, program string) error {
	bin := filepath.Join(dir, Executor, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("cannot read the demonstration executor: %w", err)
	}
	return os.WriteFile(filepath.Join(bin, "genvm"), text, 0o755)
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
		if err := os.RemoveAll(p.dir); p.err == nil {
			p.err = err
		}
	})
}
