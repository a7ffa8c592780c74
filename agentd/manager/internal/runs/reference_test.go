package runs

import (
	"fmt"
	"slices"
	"time"

	"microvms/agentd/trace"
)

// kind is what a request of the property test asks for.
type kind uint8

const (
	plain   kind = iota
	invalid      // its validation fails
	broken       // its process cannot be created
)

// refRun is what the reference knows of a run. It is written down step by step,
// as the facts tell it, and shares nothing with the table.
type refRun struct {
	id      int
	token   string
	kind    kind
	cost    int
	phase   string // queued, granted, running, draining, finished, failed, released
	cause   string // "": not decided
	held    int
	stands  trace.Action // where its goroutine waits; "": nowhere
	told    int          // exit code that its process was told; -1: none
	ending  string       // the terminal event
	due     time.Duration
	expires time.Duration // 0: not yet
}

func (r *refRun) known() bool { return r.phase != "released" }

func (r *refRun) over() bool { return r.phase == "finished" || r.phase == "failed" }

func (r *refRun) latest() string {
	switch {
	case r.over():
		return r.ending
	case r.phase == "running" || r.phase == "draining":
		return fmt.Sprint("started ", r.id)
	}
	return fmt.Sprint("queued ", r.id)
}

// refConn is what the reference knows of a connection.
type refConn struct {
	sees  map[int]string // by run: subscribed, told
	heard []string
}

// reference is the run table as the facts tell it, in the simplest form.
type reference struct {
	runs      []*refRun // by id - 1
	conns     []*refConn
	total     int
	now       time.Duration
	retention time.Duration
}

func (m *reference) free() int {
	free := m.total
	for _, r := range m.runs {
		free -= r.held
	}
	return free
}

func (m *reference) say(conn int, line string) {
	m.conns[conn].heard = append(m.conns[conn].heard, line)
}

func (m *reference) request(conn int, token string, k kind, cost int, deadline time.Duration) {
	for _, r := range m.runs {
		if token != "" && r.token == token && r.known() {
			m.say(conn, fmt.Sprint("id ", r.id))
			if m.conns[conn].sees[r.id] == "" {
				if r.latest() != fmt.Sprint("queued ", r.id) {
					m.say(conn, r.latest())
				}
				m.see(conn, r)
			}
			return
		}
	}
	r := &refRun{id: len(m.runs) + 1, token: token, kind: k, cost: cost, phase: "queued", told: -1, due: m.now + deadline}
	m.runs = append(m.runs, r)
	m.say(conn, fmt.Sprint("id ", r.id))
	m.see(conn, r)
}

// see enters a connection at a run: subscribed, or told where the run is over.
func (m *reference) see(conn int, r *refRun) {
	switch {
	case r.over():
		m.conns[conn].sees[r.id] = "told"
	case m.conns[conn].sees[r.id] == "":
		m.conns[conn].sees[r.id] = "subscribed"
	}
}

func (m *reference) publish(r *refRun, line string) {
	for i, c := range m.conns {
		if c.sees[r.id] == "subscribed" {
			m.say(i, line)
		}
	}
}

func (m *reference) attach(conn int, r *refRun) (known bool) {
	if !r.known() {
		return false
	}
	m.say(conn, "snapshot "+r.latest())
	m.see(conn, r)
	return true
}

func (m *reference) end(r *refRun, phase, ending string) {
	r.phase, r.ending, r.held, r.stands = phase, ending, 0, ""
	r.expires = m.now + m.retention
	m.publish(r, ending)
	for _, c := range m.conns {
		if c.sees[r.id] == "subscribed" {
			c.sees[r.id] = "told"
		}
	}
}

func (m *reference) stop(r *refRun, cause string) {
	if r.over() || r.cause != "" || !r.known() {
		return
	}
	r.cause = cause
	if r.phase == "queued" {
		m.end(r, "finished", fmt.Sprintf("finished %d %s", r.id, cause))
	}
}

func (m *reference) release(r *refRun) {
	r.phase = "released"
	for _, c := range m.conns {
		delete(c.sees, r.id)
	}
}

// advance lets time pass to the next minute: deadlines and expiries that are due
// take place in their order.
func (m *reference) advance(d time.Duration) {
	m.now += d
	type event struct {
		at time.Duration
		do func()
	}
	var due []event
	for _, r := range m.runs {
		if !r.over() && r.known() && r.phase != "draining" && r.due <= m.now {
			due = append(due, event{r.due, func() { m.stop(r, "deadline") }})
		}
		if r.over() && r.expires <= m.now {
			due = append(due, event{r.expires, func() { m.release(r) }})
		}
	}
	slices.SortStableFunc(due, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range due {
		e.do()
	}
}

// next says whether it is a run's turn for its permits.
func (m *reference) next(r *refRun) bool {
	for _, other := range m.runs[:r.id-1] {
		if other.phase == "queued" {
			return false
		}
	}
	return m.free() >= min(r.cost, m.total)
}

// settle moves every run to where it waits next.
func (m *reference) settle() {
	for _, r := range m.runs {
		switch {
		case r.phase == "queued" && r.kind == invalid:
			r.stands = trace.RunReject
		case r.phase == "queued" && r.stands == "" && m.next(r):
			r.stands = trace.RunGrant
		case r.phase == "granted" && r.cause != "":
			r.stands = trace.RunAbort
		case r.phase == "granted" && r.stands == trace.RunSpawnFail:
		case r.phase == "granted":
			r.stands = trace.RunSpawn
		case r.phase == "running" && (r.told >= 0 || r.cause != ""):
			r.stands = trace.RunExit
		case r.phase == "draining":
			r.stands = trace.RunFinish
		}
	}
}

// goOn lets a run take the step at which it waits.
func (m *reference) goOn(r *refRun) {
	at := r.stands
	r.stands = ""
	switch {
	case at == trace.RunReject:
		m.end(r, "failed", fmt.Sprintf("failed_to_start %d: %v", r.id, errRefused))
	case at == trace.RunGrant && m.next(r):
		r.phase, r.held = "granted", min(r.cost, m.total)
	case at == trace.RunSpawn && r.kind == broken:
		r.stands = trace.RunSpawnFail
	case at == trace.RunSpawn:
		r.phase = "running"
		m.publish(r, fmt.Sprint("started ", r.id))
	case at == trace.RunSpawnFail && r.cause == "":
		m.end(r, "failed", fmt.Sprintf("failed_to_start %d: %s", r.id, noProgram))
	case at == trace.RunAbort:
		m.end(r, "finished", fmt.Sprintf("finished %d %s", r.id, r.cause))
	case at == trace.RunExit:
		r.phase, r.held = "draining", 0
		if r.cause == "" {
			r.cause = "exited"
		}
	case at == trace.RunFinish:
		ending := fmt.Sprintf("finished %d %s", r.id, r.cause)
		if r.told >= 0 {
			ending += fmt.Sprint(" ", r.told)
		}
		m.end(r, "finished", ending)
	}
}

// noProgram is the text of a spawn whose program is not there.
const noProgram = "cannot spawn: exec: no such file or directory (ENOENT: the program, or the interpreter that it names, does not exist)"
