package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"microvms/client"
)

// sink writes until the first error, then discards: a command's work goes on
// whoever left. It is safe for concurrent use.
type sink struct {
	w   io.Writer
	mu  sync.Mutex
	err error           // the first failure
	ctx context.Context // ends the wait of a write; nil: nothing does
}

// until has the end of ctx end writes that are blocked then; they count as
// failed. nil: nothing ends them.
func (s *sink) until(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
}

// Write never fails; see err.
func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = s.write(p)
	}
	return len(p), nil
}

// write waits for the writer of s, which may be a pipe that nobody reads, until
// the context ends. What ended before is no reason not to write.
func (s *sink) write(p []byte) error {
	if s.ctx == nil || s.ctx.Err() != nil {
		_, err := s.w.Write(p)
		return err
	}
	done := make(chan error, 1)
	own := bytes.Clone(p) // the write may outlive this call
	go func() {
		_, err := s.w.Write(own)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-s.ctx.Done():
	}
	select {
	case err := <-done: // both at once: it is written
		return err
	default:
		return stopped(s.ctx, "the reader of the output")
	}
}

// failure is the first failure.
func (s *sink) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// WriteString is Write for a string.
func (s *sink) WriteString(text string) {
	if text != "" {
		s.Write([]byte(text))
	}
}

// broken says whether a write has failed.
func (s *sink) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// left says whether the failure is that the reader has gone.
func (s *sink) left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.err, syscall.EPIPE) || errors.Is(s.err, io.ErrClosedPipe) || errors.Is(s.err, os.ErrClosed) ||
		errors.Is(s.err, syscall.EBADF)
}

// closedAtStart says whether a descriptor was closed when the process started. The
// Go runtime has put the null device in its place by then, open both ways, which
// a shell never does for an output.
func closedAtStart(fd int) bool {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return true
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && is.Mode&unix.S_IFMT == unix.S_IFCHR && is.Rdev == unix.Mkdev(1, 3) && mode&unix.O_ACCMODE == unix.O_RDWR
}

// needOutput refuses a command whose result is what it writes to stdout where
// that is closed.
//
// CLI-49: what is written there is lost as on a full disk, and no write fails.
func (a *app) needOutput() error {
	if a.noOutput {
		return &client.Error{Kind: client.KindPrecondition,
			Message: "cannot write the output: stdout is closed, or is the null device open for reading too; to drop the content, use > /dev/null"}
	}
	return nil
}

// paint makes a word red on a terminal that wants colour.
func (a *app) paint(word string) string {
	// CLI-25: only a terminal that wants it, because escapes are noise to the next program.
	if !a.stderrIsTerminal() || a.env("NO_COLOR") != "" || a.env("CLICOLOR") == "0" || a.env("TERM") == "dumb" {
		return word
	}
	return "\x1b[1;31m" + word + "\x1b[0m"
}

// escape replaces what could steer a terminal or fake a line: control
// characters, invalid UTF-8, and characters that change the direction of text.
//
// CLI-16: it stands between every text of the daemon and a table or an error.
func escape(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsControl(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// table aligns cells in columns. The first row is the heading.
func table(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = escape(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
