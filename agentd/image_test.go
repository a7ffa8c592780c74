package agentd_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"microvms/agentd"
)

// image is a temporary image: a directory of handlers, and one for their marks.
type image struct {
	t         *testing.T
	dir, tree string
}

func newImage(t *testing.T) *image {
	t.Helper()
	return &image{t, t.TempDir(), t.TempDir()}
}

// handler writes the handler of a hook. "$T" in it is the directory of marks.
func (i *image) handler(hook, script string) {
	i.t.Helper()
	script = "#!/bin/sh\nT=" + i.tree + "\n" + script + "\n"
	// A child that is forked meanwhile would hold the file open for writing,
	// and the kernel would not run it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(filepath.Join(i.dir, hook), []byte(script), 0o755); err != nil {
		i.t.Fatal(err)
	}
}

// use is an edit of the Config that brings the image's handlers.
func (i *image) use(c *agentd.Config) { c.HandlerDir = i.dir }

// fifo makes a named pipe for a rendezvous with a handler.
func (i *image) fifo(name string) {
	i.t.Helper()
	if err := syscall.Mkfifo(filepath.Join(i.tree, name), 0o600); err != nil {
		i.t.Fatal(err)
	}
}

// read returns a mark; of a named pipe it waits for who writes it.
func (i *image) read(name string) string {
	i.t.Helper()
	data, err := os.ReadFile(filepath.Join(i.tree, name))
	if err != nil {
		i.t.Fatal(err)
	}
	return string(data)
}
