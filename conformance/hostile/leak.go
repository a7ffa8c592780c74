package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// usage is what a daemon's process holds. A count of -1 could not be read.
type usage struct {
	descriptors int
	children    int // zombies included
	threads     int
	peak        int64 // resident bytes: the peak since the last mark, or the present where that cannot be read
}

// watch compares what the daemon holds before and after a row.
type watch struct {
	pid    int
	before usage
	log    int // bytes that were logged before the row
}

// maxThreads is far above what a runtime needs for 128 connections.
const maxThreads = 400

func startWatch(ctx context.Context, p *probe) *watch {
	w := &watch{pid: p.PID}
	if p.Log != nil {
		w.log = len(p.Log())
	}
	if w.pid == 0 {
		return w
	}
	// The answer to the last request may arrive before its connection is
	// closed: the count is taken when it stands still.
	still := 0
	ctx, cancel := context.WithTimeout(ctx, p.Knobs.Settle)
	defer cancel()
	_ = await(ctx, "the daemon is at rest", func() (bool, error) {
		now := look(w.pid)
		if now.descriptors != w.before.descriptors || now.children != w.before.children {
			still = 0
		}
		w.before, still = now, still+1
		return still > 5, nil
	})
	markPeak(w.pid)
	return w
}

// markPeak makes the peak of a process begin anew; where it cannot, the present
// size counts.
func markPeak(pid int) { _ = os.WriteFile(procFile(pid, "clear_refs"), []byte("5"), 0) }

// judge waits until the daemon holds no more than before and says what it still
// holds when the wait is over, and what could not be seen.
func (w *watch) judge(ctx context.Context, p *probe) (faults, unseen []string) {
	ctx, cancel := context.WithTimeout(ctx, p.Knobs.limit())
	defer cancel()
	if err := slotsBack(ctx, p); err != nil {
		faults = append(faults, fmt.Sprintf("connection slots: %v", err))
	}
	if p.Log == nil {
		unseen = append(unseen, "log: not handed over")
	} else {
		faults = append(faults, judgeLog(p.Log()[w.log:])...)
	}
	if w.pid == 0 {
		return faults, append(unseen, "descriptors, children, threads and memory: the process is not known")
	}
	settle, cancel := context.WithTimeout(ctx, p.Knobs.Settle)
	defer cancel()
	var now usage
	_ = await(settle, "nothing is left", func() (bool, error) {
		now = look(w.pid)
		return now.descriptors <= w.before.descriptors && now.children <= w.before.children, nil
	})
	if now.descriptors > w.before.descriptors {
		faults = append(faults, fmt.Sprintf("descriptors: %d before, %d after", w.before.descriptors, now.descriptors))
	}
	if now.children > w.before.children {
		faults = append(faults, fmt.Sprintf("children: %d before, %d after", w.before.children, now.children))
	}
	if grown := now.peak - w.before.peak; grown > p.Knobs.Ceiling {
		faults = append(faults, fmt.Sprintf("memory: %d bytes more, the ceiling is %d", grown, p.Knobs.Ceiling))
	}
	if now.threads > maxThreads {
		faults = append(faults, fmt.Sprintf("threads: %d", now.threads))
	}
	p.note("memory peak %+d KiB, threads %d", (now.peak-w.before.peak)>>10, now.threads)
	if now.descriptors < 0 || w.before.descriptors < 0 {
		unseen = append(unseen, "descriptors: the daemon's cannot be read by this user")
	}
	if now.threads < 0 {
		faults = append(faults, "the daemon's process is gone")
	}
	return faults, unseen
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

func look(pid int) usage {
	u := usage{descriptors: -1, threads: -1}
	if entries, err := os.ReadDir(procFile(pid, "fd")); err == nil {
		u.descriptors = len(entries)
	}
	status, _ := os.ReadFile(procFile(pid, "status")) // gone: the counts stay -1
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil:
		case name == "Threads":
			u.threads = int(n)
		case name == "VmHWM":
			u.peak = n << 10
		}
	}
	u.children = countChildren(pid)
	return u
}

// countChildren counts the children of a process, zombies included.
func countChildren(pid int) (n int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			n++
		}
	}
	return n
}

// slotsBack fails unless the daemon serves as many streams at once as it admits
// connections: a slot that a row kept would leave the last of them waiting.
func slotsBack(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, argv("/bin/cat").with("stdin", true)); err != nil {
		return err
	}
	err := p.attachMany(ctx, id, p.Knobs.Connections)
	end := p.expect(ctx, "POST", execPath(id, "/stdin"), `{"signal":"eof"}`, is(200))
	if err != nil || end != nil {
		return fmt.Errorf("%d streams at once: %w", p.Knobs.Connections, errors.Join(err, end))
	}
	if _, err := p.follow(ctx, id, 0); err != nil {
		return err
	}
	return p.drop(ctx, id)
}

// attachMany holds n streams of an exec at once and closes them when all have
// their header.
func (p *probe) attachMany(ctx context.Context, id string, n int) error {
	peers := make([]*peer, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { peers[i], errs[i] = p.attach(ctx, id, 0) })
	}
	wg.Wait()
	for _, c := range peers {
		if c != nil {
			c.Close()
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// attach opens a stream on a connection of its own and returns it with the
// header read. A connection that was closed for a newcomer before its request
// was read (XPORT-5) is opened again; one that finds every slot taken by others
// that are served waits, until ctx ends.
func (p *probe) attach(ctx context.Context, id string, offset uint64) (*peer, error) {
	for {
		c, err := p.attachOnce(ctx, id, offset)
		if !errors.Is(err, errUnanswered) || ctx.Err() != nil {
			return c, err
		}
	}
}

// errUnanswered is returned for a connection that was closed before any byte of
// an answer.
var errUnanswered = errors.New("closed without an answer")

func (p *probe) attachOnce(ctx context.Context, id string, offset uint64) (*peer, error) {
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c, "GET %s?offset=%d HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer %s\r\n\r\n", execPath(id, "/stream"), offset, p.Token)
	line, err := c.br.ReadString('\n')
	if line == "" && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.Close()
		return nil, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		c.Close()
		return nil, fmt.Errorf("attach answered %q: %w", line, err)
	}
	for line != "\r\n" {
		if line, err = c.br.ReadString('\n'); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// maxLogLine is the longest line that a hostile input may cause.
const maxLogLine = 1 << 10

// judgeLog finds lines that are too long or hold raw bytes of a peer.
func judgeLog(log []byte) (faults []string) {
	for line := range bytes.Lines(log) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) > maxLogLine {
			faults = append(faults, fmt.Sprintf("log: a line of %d bytes: %.200q", len(line), line))
		}
		if i := bytes.IndexFunc(line, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\uFFFD' }); i >= 0 {
			faults = append(faults, fmt.Sprintf("log: a raw byte 0x%02x at %d of %.200q", line[i], i, line))
		}
		if len(line) > 0 && line[0] != '{' {
			faults = append(faults, fmt.Sprintf("log: a line that is no JSON object: %.200q", line))
		}
	}
	return faults
}
