// Package process starts a daemon's command as a child and finds its address.
// It holds nothing of the daemon: any command that serves wire version 1, reads
// AGENTD_PORT and logs a JSON line with msg "listening" and its addr will do.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say how a daemon is started.
type Options struct {
	Env []string // added to a minimal environment: "AGENTD_OUTPUT_LINGER_SECS=1"
	Log io.Writer
	// Args follow the command's name, and ExtraFiles are its descriptors from 3 on. They stay the caller's.
	Args       []string
	ExtraFiles []*os.File
	// Cloneflags gives the daemon namespaces of its own: CLONE_NEWPID makes it
	// the first process of one.
	Cloneflags uintptr
}

// Daemon is a running daemon process. Its methods may be called concurrently.
type Daemon struct {
	Addr string // "127.0.0.1:41237"

	cmd     *exec.Cmd
	drained chan struct{}
	stop    sync.Once
	err     error
}

// startLimit bounds the wait for the daemon's address, stopLimit the wait for its end after SIGTERM.
const (
	startLimit = 30 * time.Second
	stopLimit  = 30 * time.Second
)

// Start starts the command and waits until it listens. Identity repair is always off and the power to end the machine
// is taken from the daemon, so that nothing on this machine changes. The caller stops the daemon.
func Start(ctx context.Context, binary string, o Options) (*Daemon, error) {
	cmd := exec.Command(binary, o.Args...)
	cmd.ExtraFiles = o.ExtraFiles
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "AGENTD_PORT=0", "AGENTD_LOG=info"}, o.Env...)
	cmd.Env = append(cmd.Env, "AGENTD_REPAIR_IDENTITY=false")
	// The daemon must not outlive a driver that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: o.Cloneflags}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot open a pipe for the daemon's log: %w", err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	d := &Daemon{cmd: cmd, drained: make(chan struct{})}
	if err := startHarmless(cmd, d.drained); err != nil {
		return nil, fmt.Errorf("cannot start the daemon %q: %w", binary, err)
	}
	log := bufio.NewReader(out)
	found := make(chan error, 1)
	go func() {
		defer close(d.drained)
		found <- d.findAddr(log, o.Log)
		if o.Log == nil {
			o.Log = io.Discard
		}
		_, _ = io.Copy(o.Log, log) // ends with the daemon
	}()
	timer := time.NewTimer(startLimit)
	defer timer.Stop()
	select {
	case err = <-found:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errors.New("its log did not name its address in time")
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = d.Stop()
		return nil, fmt.Errorf("cannot start the daemon %q: %w: %s", binary, err, stderr.String())
	}
	return d, nil
}

func (d *Daemon) findAddr(log *bufio.Reader, tee io.Writer) error {
	for {
		line, err := log.ReadBytes('\n')
		if tee != nil {
			_, _ = tee.Write(line) // a log that cannot be kept must not stop the daemon
		}
		var entry struct {
			Msg  string `json:"msg"`
			Addr string `json:"addr"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
			_, port, err := net.SplitHostPort(entry.Addr)
			if err != nil {
				return fmt.Errorf("its address %q has no port: %w", entry.Addr, err)
			}
			d.Addr = net.JoinHostPort("127.0.0.1", port)
			return nil
		}
		if err != nil {
			return fmt.Errorf("its log ended before it named its address: %w", err)
		}
	}
}

// PID returns the daemon's process id.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// URL returns the daemon's base URL.
func (d *Daemon) URL() string { return "http://" + d.Addr }

// Stop asks the daemon to end with SIGTERM, waits for it, and kills it when it does not. It returns an error unless
// the daemon ended by itself with status 0. Further calls return the same.
func (d *Daemon) Stop() error {
	d.stop.Do(func() {
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // a daemon that is gone already is found by Wait
		kill := time.AfterFunc(stopLimit, func() { _ = d.cmd.Process.Kill() })
		<-d.drained
		d.err = d.cmd.Wait()
		if !kill.Stop() {
			d.err = fmt.Errorf("the daemon did not end within %s of SIGTERM", stopLimit)
		}
	})
	return d.err
}

// Build builds the command of a package of this module into dir and returns its path; dir must exist.
func Build(ctx context.Context, dir, pkg string) (string, error) {
	binary := dir + "/" + pkg[strings.LastIndexByte(pkg, '/')+1:]
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %q: %w: %s", pkg, err, out)
	}
	return binary, nil
}
