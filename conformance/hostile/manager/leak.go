package manager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"microvms/conformance/hostile"
)

// held is what the manager holds.
type held struct {
	hostile.Usage
	goroutines int
	executors  int // processes whose program lies in the folder of executors, wherever they went
}

// watch compares what the manager holds before and after a row.
type watch struct {
	before held
	log    int // bytes that were logged before the row
}

// maxThreads is far above what a runtime needs for the runs of a row.
const maxThreads = 400

func (p *probe) held() held {
	var h held
	if p.PID != 0 {
		h.Usage = hostile.LookAt(p.PID)
	}
	if p.Inside {
		h.goroutines = runtime.NumGoroutine()
	}
	if p.Executors != "" {
		h.executors = countPrograms(p.Executors)
	}
	return h
}

// countPrograms counts the processes whose program lies below dir.
func countPrograms(dir string) int { return len(programsBelow(dir)) }

// programsBelow lists the processes whose program lies below dir.
func programsBelow(dir string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is well-formed
	for _, link := range links {
		program, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(program, dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// within reports whether h holds no more than before.
func (h held) within(before held) bool {
	return h.Descriptors <= before.Descriptors && h.Children <= before.Children &&
		h.goroutines <= before.goroutines && h.executors <= before.executors
}

func startWatch(ctx context.Context, p *probe) *watch {
	w := &watch{}
	if p.Log != nil {
		w.log = len(p.Log())
	}
	ctx, cancel := context.WithTimeout(ctx, p.Knobs.Settle)
	defer cancel()
	still := 0
	// The answer to the last request may arrive before its connection is closed:
	// the count is taken when it stands still.
	_ = hostile.Await(ctx, "the manager is at rest", func() (bool, error) {
		now := p.held()
		same := now.within(w.before) && w.before.within(now)
		if w.before = now; !same {
			still = 0
		}
		still++
		return still > 5, nil
	})
	if p.PID != 0 && !p.Inside {
		hostile.MarkPeak(p.PID)
		w.before.Peak = hostile.LookAt(p.PID).Peak
	}
	return w
}

// judge waits until the manager holds no more than before and says what it still
// holds when the wait is over, and what could not be seen.
func (w *watch) judge(ctx context.Context, p *probe, ceiling int64) (faults, unseen []string) {
	if p.Log == nil {
		unseen = append(unseen, "log: not handed over")
	} else {
		faults = append(faults, hostile.JudgeLog(p.Log()[w.log:])...)
	}
	if p.Executors == "" {
		unseen = append(unseen, "executors: their folder is not known")
	}
	if p.PID == 0 {
		return faults, append(unseen, "descriptors, children, threads and memory: the process is not known")
	}
	ctx, cancel := context.WithTimeout(ctx, p.Knobs.Settle)
	defer cancel()
	var now held
	_ = hostile.Await(ctx, "nothing is left", func() (bool, error) {
		now = p.held()
		return now.within(w.before), nil
	})
	for _, c := range []struct {
		what          string
		before, after int
	}{
		{"descriptors", w.before.Descriptors, now.Descriptors}, {"children", w.before.Children, now.Children},
		{"goroutines", w.before.goroutines, now.goroutines}, {"executors", w.before.executors, now.executors},
	} {
		if c.after > c.before {
			faults = append(faults, fmt.Sprintf("%s: %d before, %d after", c.what, c.before, c.after))
		}
	}
	if now.Threads > maxThreads {
		faults = append(faults, fmt.Sprintf("threads: %d", now.Threads))
	}
	if now.Threads < 0 {
		faults = append(faults, "the manager's process is gone")
	}
	if now.Descriptors < 0 {
		unseen = append(unseen, "descriptors: the manager's cannot be read by this user")
	}
	if p.Inside {
		return faults, unseen // the peak is also the test's
	}
	if grown := now.Peak - w.before.Peak; grown > ceiling {
		faults = append(faults, fmt.Sprintf("memory: %d bytes more, the ceiling is %d", grown, ceiling))
	}
	p.note("memory peak %+d KiB of %d, threads %d", (now.Peak-w.before.Peak)>>10, ceiling>>10, now.Threads)
	return faults, unseen
}
