package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// workshop builds and runs the programs that experiments measure. What it
// builds lies in a temporary folder; the folder of the peers is only read.
type workshop struct {
	root, peers, dir string
	size             size

	mu    sync.Mutex
	built map[string]string
	stops []func() // processes to end, newest last
}

// size is how much work a round does.
type size struct {
	calls       int   // requests of a latency
	streamBytes int64 // of the stream
	heldBytes   int   // of the poll
	execs       int   // started at once
	readers     int   // of one stream or poll, for memory
	fileBytes   int64 // of a single file
	folders     int   // of fifty files each, of an archive
	tunnelBytes int64 // through a tunnel
	runs        int   // of the manager, over all connections
	pages       int   // of an artifact, asked for at once
	codec       int   // encodings of one value
	quick       bool
}

func newWorkshop(c measureCmd) (*workshop, error) {
	root, err := filepath.Abs(c.Root)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return nil, fmt.Errorf("%q is not the repository's root: %w; name it with --root", c.Root, err)
	}
	w := &workshop{root: root, built: map[string]string{}, size: size{
		calls: 400, streamBytes: 1 << 30, heldBytes: 8 << 20, execs: 1000, readers: 4,
		fileBytes: 512 << 20, folders: archiveFolders, tunnelBytes: 256 << 20,
		runs: 10_000, pages: 10_000, codec: 20_000,
	}}
	if c.Quick {
		w.size = size{
			calls: 20, streamBytes: 8 << 20, heldBytes: 1 << 20, execs: 50, readers: 2,
			fileBytes: 16 << 20, folders: 4, tunnelBytes: 16 << 20,
			runs: 100, pages: 200, codec: 100, quick: true,
		}
	}
	if c.Peers != "" {
		if w.peers, err = filepath.Abs(c.Peers); err != nil {
			return nil, err
		}
		if _, err := os.Stat(w.peers); err != nil {
			return nil, fmt.Errorf("cannot find the limit programs: %w", err)
		}
	}
	w.dir, err = os.MkdirTemp("", "bench-")
	return w, err
}

// close ends what still runs and removes what was built.
func (w *workshop) close() {
	for i := len(w.stops) - 1; i >= 0; i-- {
		w.stops[i]()
	}
	_ = os.RemoveAll(w.dir)
}

// atEnd has stop called by close.
func (w *workshop) atEnd(stop func()) { w.stops = append(w.stops, stop) }

// build runs go with args in dir, once for each name, and returns the path of
// the program, which args name as their -o.
func (w *workshop) build(ctx context.Context, name, dir string, env []string, args ...string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if path, ok := w.built[name]; ok {
		return path, nil
	}
	path := filepath.Join(w.dir, name)
	cmd := exec.CommandContext(ctx, "go", append([]string{args[0], "-o", path}, args[1:]...)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", name, err, bytes.TrimSpace(out))
	}
	w.built[name] = path
	return path, nil
}

// program builds a command of this repository as make build does.
func (w *workshop) program(ctx context.Context, pkg, arch string) (string, error) {
	return w.build(ctx, filepath.Base(pkg)+"-"+arch, w.root, []string{"GOOS=linux", "GOARCH=" + arch},
		"build", "-trimpath", "-ldflags", "-s -w", "./"+pkg)
}

// tests builds the test program of a package, whose benchmarks are run one by one.
func (w *workshop) tests(ctx context.Context, pkg string) (string, error) {
	return w.build(ctx, filepath.Base(pkg)+".test", w.root, nil, "test", "-c", "./"+pkg)
}

// errNoPeer says that no folder of limit programs was named.
var errNoPeer = errors.New("peer not measured")

// limit builds a limit program, or returns errNoPeer.
func (w *workshop) limit(ctx context.Context, name string) (string, error) {
	if w.peers == "" {
		return "", errNoPeer
	}
	dir := filepath.Join(w.peers, name)
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("cannot find the limit program: %w", err)
	}
	return w.build(ctx, "limit-"+filepath.Base(name), dir, nil, "build", "-mod=readonly", ".")
}

// ran is what a program that ended printed and used.
type ran struct {
	out    string
	maxRSS uint64 // bytes
}

// call runs a program to its end.
func call(ctx context.Context, program string, args ...string) (ran, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return ran{}, fmt.Errorf("%s: %w\n%s%s", filepath.Base(program), err, tail(stdout.Bytes()), tail(stderr.Bytes()))
	}
	r := ran{out: stdout.String()}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.maxRSS = uint64(u.Maxrss) << 10 // getrusage(2): kilobytes
	}
	return r, nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
