package child

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Controller is the driver's side: children connect to its socket. Its methods
// are safe for concurrent use.
type Controller struct {
	dir      string
	listener net.Listener
	serving  sync.WaitGroup

	mu      sync.Mutex
	byName  map[string]*Process
	conns   map[net.Conn]struct{}
	closed  bool
	changed chan struct{}
}

// Process is one child, from its greeting on.
type Process struct {
	Name string
	PID  int

	mu    sync.Mutex // one command at a time
	conn  net.Conn
	reply *bufio.Reader
	gone  chan struct{}
	pidfd int
}

// Listen opens a socket for children. Close ends it and every child.
func Listen() (*Controller, error) {
	dir, err := os.MkdirTemp("", "child")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for the children's socket: %w", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("cannot listen for children: %w", err)
	}
	// A daemon that runs as another user must reach it.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "s"), 0o777)); err != nil {
		l.Close()
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("cannot open the children's socket to all users: %w", err)
	}
	c := &Controller{
		dir: dir, listener: l,
		byName: map[string]*Process{}, conns: map[net.Conn]struct{}{}, changed: make(chan struct{}),
	}
	c.serving.Go(c.accept)
	return c, nil
}

// Socket is the path that children connect to.
func (c *Controller) Socket() string { return filepath.Join(c.dir, "s") }

func (c *Controller) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return // Close ended it
		}
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			conn.Close()
			return
		}
		c.conns[conn] = struct{}{}
		c.mu.Unlock()
		c.serving.Go(func() { c.greet(conn) })
	}
}

// greet takes a child's greeting. The child waits for commands from then on.
func (c *Controller) greet(conn net.Conn) {
	reply := bufio.NewReader(conn)
	line, err := reply.ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) != 3 || words[0] != "hello" {
		conn.Close()
		return
	}
	pid, err := strconv.Atoi(words[1])
	if err != nil {
		conn.Close()
		return
	}
	p := &Process{Name: words[2], PID: pid, conn: conn, reply: reply, gone: make(chan struct{}), pidfd: -1}
	// The child is alive, since it waits for us: the descriptor is of no other process.
	if p.pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
		conn.Close()
		return
	}
	c.serving.Go(p.watch)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byName[p.Name] = p
	close(c.changed)
	c.changed = make(chan struct{})
}

// watch waits for the process to end: not for its connection, which ends
// earlier, but for the moment from which on the kernel lists it as dead.
func (p *Process) watch() {
	defer close(p.gone)
	defer unix.Close(p.pidfd)
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, -1)
		if n > 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// Await waits until a child of that name has greeted.
func (c *Controller) Await(ctx context.Context, name string) (*Process, error) {
	for {
		c.mu.Lock()
		p, changed := c.byName[name], c.changed
		c.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("child %q did not greet: %w", name, ctx.Err())
		}
	}
}

// Close ends every child that is left, waits for their ends and removes the
// socket.
func (c *Controller) Close() error {
	err := c.listener.Close()
	c.mu.Lock()
	c.closed = true
	for conn := range c.conns {
		conn.Close() // the child sees it and exits
	}
	c.mu.Unlock()
	c.serving.Wait()
	return errors.Join(err, os.RemoveAll(c.dir))
}

// Do gives the child one command and returns what its reply holds beside "ok".
func (p *Process) Do(ctx context.Context, words ...string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	word, rest, err := p.exchange(ctx, words)
	switch {
	case err != nil:
		return "", fmt.Errorf("child %s, command %q: %w", p.Name, words[0], err)
	case word != "ok":
		return "", fmt.Errorf("child %s, command %q: replied %s %s", p.Name, words[0], word, rest)
	}
	return rest, nil
}

func (p *Process) exchange(ctx context.Context, words []string) (word, rest string, err error) {
	stop := context.AfterFunc(ctx, func() { p.conn.Close() }) // a driver that gives up has no further use for the child
	defer stop()
	if _, err := fmt.Fprintln(p.conn, strings.Join(words, " ")); err != nil {
		return "", "", err
	}
	line, err := p.reply.ReadString('\n')
	if err != nil {
		return "", "", fmt.Errorf("no reply: %w", err)
	}
	word, rest, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	return word, rest, nil
}

// Write lets the child write data to "stdout" or "stderr".
func (p *Process) Write(ctx context.Context, stream string, data []byte) error {
	_, err := p.Do(ctx, "write", stream, base64.StdEncoding.EncodeToString(data))
	return err
}

// Read lets the child read n bytes from its stdin; ended is true when it met
// the end of file before them.
func (p *Process) Read(ctx context.Context, n int) (data []byte, ended bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	word, rest, err := p.exchange(ctx, []string{"read", strconv.Itoa(n)})
	if err == nil && word == "error" {
		err = errors.New(rest)
	}
	if err != nil {
		return nil, false, fmt.Errorf("child %s cannot read: %w", p.Name, err)
	}
	data, err = base64.StdEncoding.DecodeString(rest)
	return data, word == "eof", err
}

// Number gives a command whose reply is a number.
func (p *Process) Number(ctx context.Context, words ...string) (int, error) {
	rest, err := p.Do(ctx, words...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(rest)
}

// Exit lets the child exit and waits until it has.
func (p *Process) Exit(ctx context.Context, code int) error {
	p.mu.Lock()
	_, err := fmt.Fprintf(p.conn, "exit %d\n", code)
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("child %s cannot be told to exit: %w", p.Name, err)
	}
	return p.AwaitEnd(ctx)
}

// End ends the child without a command, and waits until it has ended.
func (p *Process) End(ctx context.Context) error {
	p.conn.Close()
	return p.AwaitEnd(ctx)
}

// AwaitEnd waits until the process has ended, by whatever cause.
func (p *Process) AwaitEnd(ctx context.Context) error {
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("child %s did not end: %w", p.Name, ctx.Err())
	}
}

// Alive reports whether the process lives.
func (p *Process) Alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}
