package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server that runs beside this one until it is stopped.
type process struct {
	cmd  *exec.Cmd
	addr string // host:port
}

// startProcess runs a program and reads its output until a line tells its
// address.
func startProcess(ctx context.Context, cmd *exec.Cmd, address func(line string) (string, bool)) (*process, error) {
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %q: %w", cmd.Path, err)
	}
	theseProcesses.add(cmd.Process.Pid)
	p := &process{cmd: cmd}
	// A program that says nothing is ended with the context.
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	lines := bufio.NewReader(stdout)
	for p.addr == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			p.stop()
			return nil, fmt.Errorf("%q ended before it listened: %w", cmd.Path, err)
		}
		p.addr, _ = address(line)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // until the program ends; nobody waits for it then
	return p, nil
}

// freeAddress returns a loopback address that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// startListener runs a program that listens on an address it was given, and
// waits until it does.
func startListener(ctx context.Context, cmd *exec.Cmd, addr string) (*process, error) {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %q: %w", cmd.Path, err)
	}
	theseProcesses.add(cmd.Process.Pid)
	p := &process{cmd: cmd, addr: addr}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return p, c.Close()
		}
		select {
		case <-ctx.Done():
			p.stop()
			return nil, fmt.Errorf("%q does not listen on %s: %w", cmd.Path, addr, err)
		case <-time.After(10 * time.Millisecond): // it tells nobody when it is ready
		}
	}
}

// stop ends the process and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	// A server that does not end by itself must not hold this one up.
	timer := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait()
	theseProcesses.remove(p.cmd.Process.Pid)
}

// memory reads a line of /proc/PID/status, in bytes: VmRSS what is resident
// now, VmHWM the most that ever was (proc_pid_status(5)).
func (p *process) memory(line string) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("cannot read the memory of the process: %w", err)
	}
	return statusBytes(string(text), line)
}

func statusBytes(status, line string) (uint64, error) {
	for l := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(l, line+":"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("cannot read %s: %w", line, err)
			}
			return n << 10, nil
		}
	}
	return 0, fmt.Errorf("cannot find %s in the status of a process", line)
}
