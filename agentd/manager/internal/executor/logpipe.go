package executor

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// logPipe is the pipe that an executor writes its log to.
type logPipe struct {
	log  executorLog
	done chan struct{} // closed at the pipe's end

	mu      sync.Mutex
	file    *os.File // nil: not opened
	reading bool     // read was or will be called
}

// open makes the pipe and returns the executor's end.
func (l *logPipe) open() (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, fmt.Errorf("cannot make the log pipe: %w", err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return -1, fmt.Errorf("cannot make the log pipe: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file, l.done = os.NewFile(uintptr(p[0]), "log pipe"), make(chan struct{})
	return p[1], nil
}

// read takes the log to the pipe's end, or until ctx ends.
//
// EXECUTOR-30: it goes on after the run's end and drops what comes, so that no
// writer is held up or ended.
func (l *logPipe) read(ctx context.Context) {
	f := l.file
	defer close(l.done)
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	defer stop()
	defer f.Close()
	buf := make([]byte, 16384)
	_, _ = io.CopyBuffer(onlyWriter{&l.log}, onlyReader{f}, buf)
}

// claim says that read is going to be called, which then closes the pipe.
func (l *logPipe) claim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = true
}

// closeUnread closes the pipe unless somebody reads it.
func (l *logPipe) closeUnread() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && !l.reading {
		_ = l.file.Close()
	}
}

// onlyReader and onlyWriter hide what would make a copy take another buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)
