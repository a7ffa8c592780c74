package executor

import (
	"bytes"
	"context"
	"log/slog"
	"sync"

	"microvms/agentd/api/msp"
)

// The bounds of what is kept of a log (manager facts, section 4.6).
const (
	// safeRecords is how many records a run in mode safe keeps, the newest.
	safeRecords = 128
	// maxLineBytes is the longest line that is kept whole where the log is
	// bounded; the facts bound only the number of records.
	maxLineBytes = 65536
	// maxForwarded is how many lines of a run the manager's own log tells one
	// by one.
	maxForwarded = 128
)

// executorLog takes what an executor writes to its log descriptor. It is
// written to by one goroutine and sealed by another.
type executorLog struct {
	mode msp.DebugMode
	log  *slog.Logger // with the run's id; used in mode disabled only

	mu     sync.Mutex
	sealed bool
	line   []byte // of the line that has not ended yet
	cut    bool   // the line is longer than line holds

	all    []byte   // unbounded modes: the records
	newest [][]byte // mode safe: circular once it is full
	at     int      // index of the oldest record of a full newest

	lines, bytes int // mode disabled: what came
	size         int // bytes of the line that has not ended yet, the cut ones included
}

// Write takes bytes of the log. It never fails: an executor must not be held
// up, or ended, by what becomes of its log.
func (l *executorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return len(p), nil // EXECUTOR-29: after the end it is read on and dropped
	}
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		l.extendLocked(part)
		if ended {
			l.endLineLocked()
		}
		rest = after
	}
	return len(p), nil
}

// extendLocked adds to the line. Where the log is bounded, so is the line.
func (l *executorLog) extendLocked(part []byte) {
	l.size += len(part)
	if !boundedLog(l.mode) {
		l.line = append(l.line, part...)
		return
	}
	room := maxLineBytes - len(l.line)
	if len(part) > room {
		// EXECUTOR-28: a line without an end must not cost memory without end.
		part, l.cut = part[:room], true
	}
	l.line = append(l.line, part...)
}

func (l *executorLog) endLineLocked() {
	line := bytes.TrimSpace(l.line)
	if len(line) > 0 { // EXECUTOR-24
		l.keepLocked(record(line, !l.cut))
	}
	l.line, l.cut, l.size = l.line[:0], false, 0
}

func (l *executorLog) keepLocked(rec []byte, lv level) {
	switch {
	case !l.mode.AtLeast(msp.DebugSafe):
		l.lines++
		l.bytes += l.size
		if l.lines <= maxForwarded {
			// EXECUTOR-27: the size of the line, which its record may exceed, and the level, because a line may hold anything of a contract's.
			l.log.Log(context.Background(), lv.slog(), "executor log line", "executor_level", string(lv), "bytes", l.size)
		}
	case boundedLog(l.mode) && len(l.newest) == safeRecords: // EXECUTOR-22: the oldest makes room
		l.newest[l.at] = rec
		l.at = (l.at + 1) % safeRecords
	case boundedLog(l.mode):
		l.newest = append(l.newest, rec)
	default:
		l.all = append(l.all, rec...)
	}
}

// seal ends the log and returns the artifact, records in the order of their
// arrival. A last line without an end counts as a line.
func (l *executorLog) seal() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return nil
	}
	l.endLineLocked()
	l.sealed = true
	l.line = nil
	if l.lines > maxForwarded {
		l.log.Info("executor log lines not told one by one", "lines", l.lines-maxForwarded, "bytes", l.bytes)
	}
	artifact := l.all
	for i := range l.newest {
		artifact = append(artifact, l.newest[(l.at+i)%len(l.newest)]...)
	}
	l.all, l.newest = nil, nil
	return artifact
}
