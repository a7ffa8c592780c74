package verify

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"microvms/model"
)

// Progress shows what runs. On a terminal one line is rewritten in place; elsewhere only the end of each stage is
// printed. A nil Progress is silent. Its methods may be called concurrently.
type Progress struct {
	Out      io.Writer
	Terminal bool
	Width    int // columns of the terminal; 80 when 0

	mu    sync.Mutex
	stage string
	begun time.Time
	steps int
	last  time.Time
}

// Begin says that a stage starts.
func (p *Progress) Begin(stage string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage, p.begun, p.steps, p.last = stage, time.Now(), 0, time.Time{}
	p.lineLocked("")
}

// Step says that one more thing was looked at.
func (p *Progress) Step(stage, what string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stage != stage {
		return
	}
	p.steps++
	// Ten rewritten lines a second are enough for a reader and cost nothing.
	if now := time.Now(); now.Sub(p.last) >= 100*time.Millisecond {
		p.last = now
		p.lineLocked(what)
	}
}

// Lines returns a writer whose lines are shown as steps of the stage.
func (p *Progress) Lines(stage string) io.Writer { return lineWriter{p, stage} }

type lineWriter struct {
	p     *Progress
	stage string
}

func (w lineWriter) Write(b []byte) (int, error) {
	for _, l := range strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' || r == '\r' }) {
		w.p.Step(w.stage, l)
	}
	return len(b), nil
}

func (p *Progress) lineLocked(what string) {
	if !p.Terminal {
		return
	}
	width := p.Width
	if width <= 0 {
		width = 80
	}
	line := fmt.Sprintf("%-10s %4.0fs %6d  %s", p.stage, time.Since(p.begun).Seconds(), p.steps, printable(what))
	if r := []rune(line); len(r) >= width {
		line = string(r[:width-1])
	}
	fmt.Fprintf(p.Out, "\r\x1b[K%s", line)
}

// End prints a stage's outcome: how much it looked at, and each problem.
func (p *Progress) End(s Stage) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Terminal {
		fmt.Fprint(p.Out, "\r\x1b[K")
	}
	fmt.Fprintf(p.Out, "%-10s %-12s %6.1fs  %s\n", s.Name, mark(s.Verdict), s.Seconds, countsLine(s.Counts))
	for _, l := range s.Problems {
		fmt.Fprintf(p.Out, "  %s\n", strings.ReplaceAll(printable(l), "\n", "\n    "))
	}
	for _, l := range s.Unsure {
		fmt.Fprintf(p.Out, "  inconclusive: %s\n", printable(l))
	}
}

func mark(v model.Verdict) string {
	if v == model.Violated {
		return "VIOLATED"
	}
	return string(v)
}

func countsLine(counts map[string]int64) string {
	var parts []string
	for _, k := range sortedKeys(counts) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
	}
	return strings.Join(parts, ", ")
}

// printable drops control characters other than newline and tab: test output may hold anything.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if (r < 0x20 && r != '\n' && r != '\t') || r == 0x7f {
			return -1
		}
		return r
	}, s)
}
