package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"microvms/client"
)

// The kernel may block an open, a read or a write of a pipe, a terminal or a
// device for ever, and nothing ends such a call. Here it is left to itself when
// the context ends: at worst it ends with the process.

// stopped is the end of a local call because ctx has ended.
func stopped(ctx context.Context, what string) error {
	kind, cause := client.KindInterrupted, context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		kind = client.KindTimeout
	}
	return &client.Error{Kind: kind, Message: "stopped waiting for " + what, Err: cause}
}

// openFile is os.OpenFile, which waits for the other end of a pipe, until ctx
// ends.
//
// CLI-45: waited for, because a pipe that is named is meant to be used; but no
// longer than its user waits.
func openFile(ctx context.Context, name string, flag int, perm os.FileMode) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		file, err := os.OpenFile(name, flag, perm)
		done <- opened{file, err}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-ctx.Done():
		go func() { // it may open yet
			if o := <-done; o.err == nil {
				_ = o.file.Close() // nothing was read or written
			}
		}()
		return nil, stopped(ctx, "the other end of a pipe")
	}
}

// inputUntil reads src until ctx ends. After stop, src is read no more but for a
// read that has begun.
func inputUntil(ctx context.Context, src io.Reader) (r io.Reader, stop func()) {
	pr, pw := io.Pipe()
	go func() {
		_, err := io.Copy(pw, src)
		pw.CloseWithError(err)
	}()
	detach := context.AfterFunc(ctx, func() { pw.CloseWithError(stopped(ctx, "the input")) })
	return pr, func() { detach(); _ = pr.Close() } // closing a pipe does not fail
}

// copyUntil copies src to dst until ctx ends, however long a write to dst
// blocks.
func copyUntil(ctx context.Context, dst io.Writer, src io.Reader) error {
	pr, pw := io.Pipe()
	written := make(chan error, 1)
	go func() {
		_, err := io.Copy(dst, pr)
		pr.CloseWithError(err)
		written <- err
	}()
	detach := context.AfterFunc(ctx, func() { pr.CloseWithError(stopped(ctx, "the reader of the output")) })
	defer detach()
	_, err := io.Copy(pw, src)
	pw.CloseWithError(err)
	select {
	case failed := <-written:
		if err == nil {
			err = failed
		}
	case <-ctx.Done():
		if err == nil {
			err = stopped(ctx, "the reader of the output")
		}
	}
	return err
}

// interruptible runs f with a context that the next interrupt ends. An interrupt
// that comes when f is done already is still one of the command.
func (a *app) interruptible(ctx context.Context, f func(context.Context) error) error {
	ctx, release := a.untilInterrupt(ctx)
	err := f(ctx)
	release()
	if err == nil && errors.Is(context.Cause(ctx), errSignal) {
		err = stopped(ctx, "a file")
	}
	return err
}

// readAll reads src whole until ctx ends.
func readAll(ctx context.Context, src io.Reader) ([]byte, error) {
	r, stop := inputUntil(ctx, src)
	defer stop()
	var buf bytes.Buffer
	_, err := io.Copy(&buf, r)
	return buf.Bytes(), err
}

// readStdin reads this command's own input whole, unless it is interrupted.
func (a *app) readStdin(ctx context.Context) (b []byte, err error) {
	err = a.interruptible(ctx, func(ctx context.Context) (err error) {
		b, err = readAll(ctx, a.stdin)
		return err
	})
	if err != nil {
		return nil, localError("cannot read the input", err)
	}
	return b, nil
}

// readFile reads a file whole, which may be a pipe, unless it is interrupted.
func (a *app) readFile(ctx context.Context, name string) (b []byte, err error) {
	err = a.interruptible(ctx, func(ctx context.Context) error {
		file, err := openFile(ctx, name, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		b, err = readAll(ctx, file)
		return err
	})
	return b, err
}

// writeFile writes a file whole, which may be a pipe, unless it is interrupted.
func (a *app) writeFile(ctx context.Context, name string, content []byte) error {
	return a.interruptible(ctx, func(ctx context.Context) error {
		file, err := openFile(ctx, name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		err = copyUntil(ctx, file, bytes.NewReader(content))
		if closing := file.Close(); err == nil {
			err = closing
		}
		return err
	})
}
