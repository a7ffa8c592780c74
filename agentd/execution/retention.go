package execution

import (
	"microvms/agentd/trace"
)

// retainLocked starts the record's last stretch of life.
func (e *Exec) retainLocked() {
	r := e.reg
	if e.retention != nil || r.base.Err() != nil {
		return
	}
	e.retention = r.cfg.Clock.AfterFunc(r.cfg.Retention, func() {
		if !r.begin() {
			return
		}
		defer r.wg.Done()
		if r.pass(r.base, e.point(r.base, trace.ExecCollect)) == nil {
			r.collect(e)
		}
	})
}

// collect removes a record; its key may be used again. Readers that are
// attached keep what they read from. A pipe that a survivor still writes is
// drained on.
func (r *Registry) collect(e *Exec) {
	r.mu.Lock()
	if r.entries[e.key] != e {
		r.mu.Unlock()
		return
	}
	delete(r.entries, e.key) // EXEC-28, EXEC-29: the next start finds the id unknown
	e.visible = false
	r.registered--
	e.mu.Lock()
	e.removed = true
	if e.open > 0 {
		r.loose[e] = struct{}{}
	}
	idle := !e.escalatingLocked()
	if e.retention != nil {
		e.retention.Stop()
	}
	e.mu.Unlock()
	r.note(r.base, e.key, trace.ExecCollect)
	r.mu.Unlock()
	if idle { // a kill under way is not cut short: it ends the group itself
		e.group.forget()
	}
}

// drop forgets a collected command whose last pipe has ended.
func (r *Registry) drop(e *Exec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.loose, e)
}
