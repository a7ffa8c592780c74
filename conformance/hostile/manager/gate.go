package manager

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// gate is a socket to which executors and what they forked say hello, and on
// which they wait.
type gate struct {
	dir      string
	listener net.Listener
	greeted  chan net.Conn

	mu    sync.Mutex
	conns []net.Conn
	done  chan struct{}
}

func newGate() (*gate, error) {
	dir, err := os.MkdirTemp("", "gate")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	g := &gate{dir: dir, listener: l, greeted: make(chan net.Conn, 256), done: make(chan struct{})}
	go g.accept()
	return g, nil
}

func (g *gate) accept() {
	defer close(g.done)
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		g.conns = append(g.conns, conn)
		g.mu.Unlock()
		if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			g.greeted <- conn
		}
	}
}

// step is a step of the demonstration executor that names this gate.
func (g *gate) step(word string) string {
	return fmt.Sprintf("%s=%s,x", word, g.listener.Addr())
}

// await waits for one hello.
func (g *gate) await(ctx context.Context) error {
	_, err := g.guest(ctx)
	return err
}

// guest waits for one hello and returns its connection, which ends with its
// process.
func (g *gate) guest(ctx context.Context) (net.Conn, error) {
	select {
	case conn := <-g.greeted:
		if until, ok := ctx.Deadline(); ok {
			_ = conn.SetDeadline(until)
		}
		return conn, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("no executor said hello: %w", ctx.Err())
	}
}

// close lets go of everybody who waits.
func (g *gate) close() {
	g.listener.Close()
	<-g.done
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range g.conns {
		conn.Close()
	}
	_ = os.RemoveAll(g.dir) // what stays behind of a temporary folder harms nobody
}
