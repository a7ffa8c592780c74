package execution

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"microvms/agentd/trace"
)

// stdin is the write end of a command's stdin.
type stdin struct {
	// turn is held by the one writer. A channel serves its senders in the
	// order in which they came, so two writers never mix their bytes.
	turn chan struct{}

	mu        sync.Mutex
	requested bool
	file      *os.File // nil once closed
	write     uint64   // serial number of the write under way
}

func (s *stdin) init(f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested, s.file = f != nil, f
}

// end marks stdin closed and hands out the file to close.
func (s *stdin) end() *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.file
	s.file = nil
	return f
}

// state says whether stdin was asked for, and whether it is open.
func (s *stdin) state() (requested, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requested, s.file != nil
}

// interrupt makes write number n return, if it is still under way. Later
// writes are not touched.
func (s *stdin) interrupt(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.write == n && s.file != nil {
		_ = s.file.SetWriteDeadline(time.Unix(1, 0)) // any moment past
	}
}

// begin numbers a write and clears what interrupted the one before.
func (s *stdin) begin() (*os.File, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write++
	if s.file != nil {
		_ = s.file.SetWriteDeadline(time.Time{})
	}
	return s.file, s.write
}

// over ends the present write: what interrupts it comes too late.
func (s *stdin) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write++
}

// WriteStdin writes data to the command's stdin, then, if eof is set, closes
// it. Writes do not mix and come in the order of their calls. It returns how
// many bytes the pipe took, with
//
//   - ErrStdinNotRequested when the command was started without stdin,
//   - ErrStdinTooLarge for more than Config.MaxStdinWrite bytes, none written,
//   - ErrStdinClosed after an end of file (a second one too), after the exec's
//     exit, and when no process reads the pipe any more, which closes it,
//   - ErrStdinTimeout when the child did not drain the pipe within
//     Config.StdinTimeout; it stays open, and eof was not sent,
//   - ctx's error when ctx ended first; as after a timeout.
func (e *Exec) WriteStdin(ctx context.Context, data []byte, eof bool) (written int, err error) {
	s := &e.stdin
	limit := e.reg.cfg.MaxStdinWrite
	switch requested, _ := s.state(); {
	case !requested:
		return 0, ErrStdinNotRequested // STDIN-2: judged first, in any phase
	case limit > 0 && len(data) > limit:
		return 0, ErrStdinTooLarge // STDIN-8: before any byte is offered
	}
	select {
	case s.turn <- struct{}{}: // STDIN-3: one writer at a time, in the order of arrival
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if len(data) > 0 {
		// STDIN-5: all of the data before the end that the same request may bring.
		if written, err = e.offer(ctx, data); err != nil {
			return written, err
		}
	}
	if !eof {
		if _, open := s.state(); len(data) == 0 && !open {
			return 0, ErrStdinClosed
		}
		return written, nil
	}
	if err := e.reg.pass(ctx, e.point(ctx, trace.StdinEOF)); err != nil {
		return written, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f := s.end()
	if f == nil {
		return written, ErrStdinClosed // STDIN-6: a second end is told that it is one
	}
	_ = f.Close() // no write is under way: the turn is held
	e.noteLocked(ctx, trace.StdinEOF)
	return written, nil
}

// offer writes data within the stall limit.
func (e *Exec) offer(ctx context.Context, data []byte) (int, error) {
	s, r := &e.stdin, e.reg
	if err := r.pass(ctx, e.point(ctx, trace.StdinWrite)); err != nil {
		return 0, err
	}
	f, serial := s.begin()
	if f == nil {
		return 0, ErrStdinClosed // STDIN-6: an end was sent, or came by itself
	}
	defer s.over()
	e.mu.Lock() // recorded before the write: the child may answer at once
	e.noteLocked(ctx, trace.StdinWrite, trace.Attr{Key: "bytes", Value: int64(len(data))})
	e.mu.Unlock()
	if d := r.cfg.StdinTimeout; d > 0 {
		timer := r.cfg.Clock.AfterFunc(d, func() {
			if r.pass(r.base, e.point(ctx, trace.StdinTimeout)) == nil {
				s.interrupt(serial)
			}
		})
		defer timer.Stop()
	}
	stop := context.AfterFunc(ctx, func() { s.interrupt(serial) })
	defer stop()
	n, err := f.Write(data)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, syscall.EPIPE):
		if f := s.end(); f != nil {
			_ = f.Close()
		}
		return n, ErrStdinClosed
	case errors.Is(err, os.ErrClosed):
		return n, ErrStdinClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		e.mu.Lock()
		e.noteLocked(ctx, trace.StdinTimeout, trace.Attr{Key: "bytes", Value: int64(n)})
		e.mu.Unlock()
		return n, ErrStdinTimeout // STDIN-7: the pipe stays open
	}
	return n, fmt.Errorf("cannot write to stdin: %w", err)
}
