package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// stderrIsTerminal says whether a person reads stderr.
func (a *app) stderrIsTerminal() bool {
	file, ok := a.stderr.w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Pace of the progress line.
const (
	progressAfter = time.Second            // a transfer that is over sooner shows none
	progressEvery = 200 * time.Millisecond // between two paints
)

// progress is one line on a terminal that says how far a transfer is. A nil one
// shows nothing. It is safe for concurrent use.
type progress struct {
	w     io.Writer
	now   func() time.Time
	total int64 // 0: unknown

	mu             sync.Mutex
	done           int64
	start, painted time.Time
	shown, over    bool
}

// progress starts to measure a transfer.
func (a *app) progress(total int64) *progress {
	// CLI-40: a line that is painted over itself is noise to a file or a program.
	if a.quiet || !a.stderrIsTerminal() || a.env("TERM") == "dumb" {
		return nil
	}
	return &progress{w: a.stderr, now: a.now, total: max(total, 0), start: a.now()}
}

// add counts bytes, and paints when it is time.
func (p *progress) add(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	now := p.now()
	if p.over || now.Sub(p.start) < progressAfter || now.Sub(p.painted) < progressEvery {
		return
	}
	p.painted, p.shown = now, true
	fmt.Fprintf(p.w, "\r\x1b[K%s", p.line(now.Sub(p.start)))
}

// line is what is painted after some time.
func (p *progress) line(after time.Duration) string {
	rate := float64(p.done) / after.Seconds()
	if p.total <= 0 {
		return fmt.Sprintf("%s  %s/s", size(float64(p.done)), size(rate))
	}
	done := min(p.done, p.total) // headers of an archive come on top of the content
	text := fmt.Sprintf("%s of %s  %s/s", size(float64(done)), size(float64(p.total)), size(rate))
	if rate > 0 {
		left := float64(p.total-done) / rate
		text += fmt.Sprintf("  %s left", time.Duration(min(left, 1e6)*float64(time.Second)).Round(time.Second))
	}
	return text
}

// end takes the line away.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over = true; p.shown {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}

// size is a number of bytes for people.
func size(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	unit := 0
	for n >= 1024 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
}

// counted reads src and tells what it read.
type counted struct {
	src io.Reader
	n   int64
	p   *progress
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.n += int64(n)
	c.p.add(n)
	return n, err
}
