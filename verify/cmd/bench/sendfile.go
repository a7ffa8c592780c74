package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// sendfile downloads a file from a daemon of its own whose system calls are
// traced, and says which share of the bytes the kernel moved by itself.
func (b *bench) sendfile(ctx context.Context, r *round) error {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil // not measured
	}
	d, err := b.w.startDaemon(ctx)
	if err != nil {
		return err
	}
	stop := sync.OnceFunc(d.stop)
	defer stop()
	tracer := exec.CommandContext(ctx, strace, "-f", "-e", "trace=sendfile,splice", "-p", strconv.Itoa(d.cmd.Process.Pid))
	stderr, err := tracer.StderrPipe()
	if err != nil {
		return err
	}
	if err := tracer.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(stderr)
	moved := make(chan int64, 1)
	attached := make(chan struct{})
	go func() { moved <- kernelMoved(lines, attached) }()
	select {
	case <-attached:
	case <-ctx.Done():
		return ctx.Err()
	}
	n := b.w.size.fileBytes
	from := d.url("/v1/fs/file" + query("path", filepath.Join(b.files, "source")))
	_, err = b.download(ctx, d.http, from, n)
	stop() // the tracer ends with it
	got := <-moved
	if err := errors.Join(err, ended(tracer.Wait())); err != nil {
		return err
	}
	r.add(sendfileName, 100*float64(got)/float64(n), 0, untimed)
	return nil
}

// ended forgives the exit status of a tracer, which is that of what it traced.
func ended(err error) error {
	var status *exec.ExitError
	if errors.As(err, &status) {
		return nil
	}
	return err
}

// tracedCall finds the result of a call, in one line or where it was resumed.
var tracedCall = regexp.MustCompile(`(?:sendfile|splice)(?:64)?(?:\(| resumed>).*= (\d+)$`)

// kernelMoved adds up what the traced calls returned, to the end of the trace.
// attached is closed with the first line, which says that the tracer has attached.
func kernelMoved(trace *bufio.Reader, attached chan<- struct{}) (total int64) {
	for first := true; ; first = false {
		line, err := trace.ReadString('\n')
		if first {
			close(attached)
		}
		total += movedBy(strings.TrimRight(line, "\n"))
		if err != nil {
			return total // the tracer has ended
		}
	}
}

func movedBy(line string) int64 {
	m := tracedCall.FindStringSubmatch(line)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		panic(fmt.Sprintf("bench: internal error: %v", err)) // digits of a system call's result fit
	}
	return n
}
