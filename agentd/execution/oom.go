package execution

import (
	"log/slog"
	"os"
	"strconv"
	"sync"
)

// oomScore changes the daemon's out-of-memory score around each fork: the
// child copies the score that the daemon has at that moment, and what it forks
// copies it on, so a correction after the fork would come too late. A nil
// oomScore does nothing.
type oomScore struct {
	mu      sync.Mutex
	forks   int // forks under way
	file    *os.File
	own     []byte
	child   []byte
	log     *slog.Logger
	refused bool // the kernel took the score of children and refused ours
}

// SetOOMScoreAdj gives the daemon policy.Own between forks and every child
// policy.Child. Where the daemon may not lower its score it keeps the
// children's, and that is logged once.
func (w *Waits) SetOOMScoreAdj(policy OOMScoreAdj, log *slog.Logger) error {
	return w.setOOMScoreAdj("/proc/self/oom_score_adj", policy, log)
}

func (w *Waits) setOOMScoreAdj(path string, policy OOMScoreAdj, log *slog.Logger) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	o := &oomScore{
		file: f, log: log,
		own: []byte(strconv.Itoa(policy.Own)), child: []byte(strconv.Itoa(policy.Child)),
	}
	o.write(o.own)
	w.fork.Lock()
	defer w.fork.Unlock()
	if w.oom != nil {
		_ = w.oom.file.Close()
	}
	w.oom = o
	return nil
}

// enterFork gives the daemon its children's score until the returned function
// was called by every fork that is under way.
func (o *oomScore) enterFork() (leave func()) {
	if o == nil {
		return func() {}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.forks++; o.forks == 1 {
		o.write(o.child)
	}
	return o.leaveFork
}

func (o *oomScore) leaveFork() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.forks--; o.forks == 0 {
		o.write(o.own)
	}
}

func (o *oomScore) write(score []byte) {
	if o.refused {
		return
	}
	if _, err := o.file.WriteAt(score, 0); err != nil {
		o.refused = true
		o.log.Warn("cannot set the oom score", "err", err)
	}
}
