package runs

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"microvms/agentd/trace"
)

// PageBytes is the most bytes of an artifact that one read returns (manager
// facts, section 2.2).
const PageBytes = 262144

// Field names an artifact.
type Field string

// The artifacts.
const (
	Stdout   Field = "stdout"
	Stderr   Field = "stderr"
	GenvmLog Field = "genvm_log"
)

// Fields lists the artifacts in the order of Finished.Sizes.
var Fields = [3]Field{Stdout, Stderr, GenvmLog}

// Artifact returns the artifact's length and its bytes from offset on, at most
// limit and at most PageBytes of them. data is shared and must not be changed.
// An offset behind the end gives no data. It returns ErrUnknown for a run that
// is unknown or did not finish, ErrField for another field, and the error of
// ctx.
func (t *Table) Artifact(ctx context.Context, id ID, field Field, offset uint64, limit uint32) (total uint64, data []byte, err error) {
	if err := t.pass(ctx, trace.RunRead, id); err != nil {
		return 0, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.runs[id]
	if !ok || r.phase != PhaseFinished {
		return 0, nil, ErrUnknown // MGR-19, MGR-22: a run that did not finish has no artifacts
	}
	i := slices.Index(Fields[:], field)
	if i < 0 {
		return 0, nil, ErrField
	}
	t.noteLocked(ctx, trace.RunRead, id, trace.Attr{Key: "field", Value: string(field)}) // MGR-29: that is all that a read writes
	whole := r.artifacts[i]
	total = uint64(len(whole))
	from := min(offset, total)
	to := min(from+uint64(min(limit, PageBytes)), total)
	return total, whole[from:to:to], nil
}

// Ack releases a run that has ended. It returns ErrUnknown, ErrNotFinished or
// the error of ctx.
func (t *Table) Ack(ctx context.Context, id ID) error {
	if err := t.pass(ctx, trace.RunAck, id); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.runs[id]
	switch {
	case !ok:
		return ErrUnknown // MGR-20: the other of two acks was first
	case !r.phase.terminal():
		return ErrNotFinished // MGR-20: and nothing changes
	}
	t.noteLocked(ctx, trace.RunAck, id)
	t.releaseLocked(r)
	return nil
}

// expire releases a run whose retention passed.
func (t *Table) expire(r *run) {
	if !t.begin() {
		return
	}
	defer t.wg.Done()
	if t.pass(t.base, trace.RunExpire, r.id) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.released {
		return
	}
	t.noteLocked(t.base, trace.RunExpire, r.id)
	t.releaseLocked(r)
}

// releaseLocked forgets a run. Events that were delivered stay delivered.
func (t *Table) releaseLocked(r *run) {
	r.released = true
	r.expiry.Stop()
	delete(t.runs, r.id)
	if r.token != nil {
		delete(t.tokens, *r.token) // MGR-5: from here on the token starts a fresh run
	}
	for sub := range r.seats {
		delete(t.conns[sub], r)
		if len(t.conns[sub]) == 0 {
			delete(t.conns, sub)
		}
	}
	r.seats, r.artifacts = nil, [3][]byte{}
	r.changeLocked()
}

// newest drops the broken character at the start of text whose beginning is
// missing.
func newest(text []byte, cut bool) []byte {
	if !cut {
		return text
	}
	for i := range min(len(text), utf8.UTFMax-1) {
		if utf8.RuneStart(text[i]) {
			return text[i:]
		}
	}
	return text[min(len(text), utf8.UTFMax-1):]
}

// Status is what is known of a run at one moment.
type Status struct {
	ID         ID
	Token      *string
	Phase      Phase
	AcceptedAt time.Time
	Deadline   time.Time // when the run is stopped at the latest
	StartedAt  time.Time // zero without a process
	FinishedAt time.Time // zero before the terminal event
	Version    string    // Prepared.Version
	Permits    int       // held
}

// Status lists the known runs, in the order of their ids. The slice is the
// caller's.
func (t *Table) Status() []Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Status
	for _, r := range t.sortedLocked() {
		all = append(all, Status{
			ID: r.id, Token: r.token, Phase: r.phase, AcceptedAt: r.accepted, Deadline: r.due,
			StartedAt: r.started, FinishedAt: r.ended, Version: r.version, Permits: r.held,
		})
	}
	return all
}
