package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"
)

// Manager is a running manager of which clients know the address.
type Manager struct {
	Network, Address string
	// Kill ends it by SIGKILL, Stop by SIGTERM. Each returns when the process has
	// ended; Stop's error says that it did not end as it should.
	Kill func() error
	Stop func() error
}

// Starter starts a fresh manager on an address of its own, with two permits of
// which each run needs one, a retention that outlasts a history, and the
// demonstration executor under the name Demonstration.
type Starter func(ctx context.Context, tcp bool) (*Manager, error)

// errOver is returned to a client when there is no manager any more.
var errOver = errors.New("the manager was shut down")

// recorder is what the clients of one history share.
type recorder struct {
	plan  plan
	start Starter
	clock func() int64

	mu       sync.Mutex
	manager  *Manager
	boots    []uint64 // 0: nobody has heard yet
	died     []bool   // by boot
	over     bool
	sessions []*session
	stayed   map[*session]bool
	ops      []*Operation
	ids      []uint64 // of the present boot, as replies named them
	stop     chan struct{}
	changed  chan struct{}
}

// record lets all clients of the plan act at once on a fresh manager, and
// returns what they saw. Its error is about the run itself: a manager that hangs,
// or does not end as it should.
func record(ctx context.Context, p plan, start Starter, name string, seed uint64) (h *History, err error) {
	begin := time.Now()
	r := &recorder{
		plan: p, start: start, clock: func() int64 { return int64(time.Since(begin)) },
		stayed: map[*session]bool{}, stop: make(chan struct{}), changed: make(chan struct{}),
	}
	if err := r.boot(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("history %q: %w", name, errors.Join(err, r.end()))
		}
	}()
	if err := r.act(ctx); err != nil {
		return nil, err
	}
	if p.stop != Term {
		if err := r.close(ctx); err != nil {
			return nil, fmt.Errorf("at its end: %w", err)
		}
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return r.history(name, seed), nil
}

// act runs the clients and whoever stops the manager.
func (r *recorder) act(ctx context.Context) error {
	var (
		clients, stopper sync.WaitGroup
		mu               sync.Mutex
		bad              error
	)
	note := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		bad = errors.Join(bad, err)
	}
	gone := make(chan struct{})
	stopper.Go(func() {
		select {
		case <-r.stop:
		case <-gone: // the clients asked for less: the stop comes at their end
		}
		note(r.interrupt(ctx))
	})
	for c, bursts := range r.plan.clients {
		clients.Go(func() {
			if err := r.client(ctx, c, bursts); err != nil && !errors.Is(err, errOver) {
				note(fmt.Errorf("client %d: %w", c, err))
			}
		})
	}
	clients.Wait()
	close(gone)
	stopper.Wait()
	for _, s := range r.sessions {
		if r.plan.stop == Term {
			<-s.done
		}
	}
	return bad
}

// boot starts a manager.
func (r *recorder) boot(ctx context.Context) error {
	m, err := r.start(ctx, r.plan.tcp)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.over = true
	}
	r.manager, r.ids = m, nil
	if m != nil {
		r.boots, r.died = append(r.boots, 0), append(r.died, false)
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return err
}

// interrupt stops the manager as the plan says.
func (r *recorder) interrupt(ctx context.Context) error {
	switch r.plan.stop {
	case Kill:
		r.mu.Lock()
		m := r.manager
		r.died[len(r.died)-1], r.manager = true, nil
		r.mu.Unlock()
		return errors.Join(m.Kill(), r.boot(ctx))
	case Term:
		op := &Operation{Client: -1, Kind: Shutdown, Call: r.clock(), Answer: &Answer{}}
		r.mu.Lock()
		m := r.manager
		r.over, r.ops = true, append(r.ops, op)
		r.mu.Unlock()
		err := m.Stop()
		op.Return = r.clock()
		return err
	}
	return nil
}

// end ends the last manager.
func (r *recorder) end() error {
	r.mu.Lock()
	m, over := r.manager, r.over
	r.over = true
	r.mu.Unlock()
	if m == nil || over {
		return nil
	}
	return m.Stop()
}

// connect opens a connection to the manager that there is.
func (r *recorder) connect(ctx context.Context, client int) (*session, error) {
	for {
		r.mu.Lock()
		m, boot, changed, over := r.manager, len(r.boots)-1, r.changed, r.over
		r.mu.Unlock()
		switch {
		case over:
			return nil, errOver
		case m == nil:
			<-changed
			continue
		}
		s, err := r.dial(ctx, m)
		r.mu.Lock()
		over, died := r.over, r.died[boot]
		switch {
		case err == nil:
			s.conn.Client, s.conn.Boot = client, boot
			r.sessions = append(r.sessions, s)
			if r.boots[boot] == 0 {
				r.boots[boot] = s.conn.Hello
			}
		case died:
			err = nil
		case over:
			err = errOver
		}
		r.mu.Unlock()
		if s != nil || err != nil {
			return s, err
		}
	}
}

func (r *recorder) dial(ctx context.Context, m *Manager) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	w, err := dial(ctx, m.Network, m.Address)
	if err != nil {
		return nil, err
	}
	s, err := open(w, r.clock)
	if err != nil {
		w.conn.Close()
		return nil, err
	}
	return s, nil
}

// client performs the bursts of one client, on one connection after another.
func (r *recorder) client(ctx context.Context, client int, bursts []burst) error {
	var s *session
	for _, b := range bursts {
		if s == nil {
			var err error
			if s, err = r.connect(ctx, client); err != nil {
				return err
			}
		}
		ops := r.resolve(s, b.requests)
		if err := r.perform(ctx, s, ops, b); err != nil {
			return err
		}
		select {
		case <-s.done:
			s = nil
		default:
		}
	}
	return nil
}

// resolve chooses the ids that the requests of a burst name.
func (r *recorder) resolve(s *session, requests []request) []*Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	ops := make([]*Operation, len(requests))
	for i, q := range requests {
		op := q.op
		ops[i] = &op
		if op.Kind == Run {
			continue
		}
		ids := r.ids
		if s.conn.Boot != len(r.boots)-1 {
			ids = nil
		}
		op.Run, op.Boot = neverGiven, s.conn.Boot
		if len(ids) > 0 && !q.unknown {
			op.Run = ids[max(len(ids)-1-q.pick, 0)]
		}
		if q.older {
			op.Boot = s.conn.Boot - 1
		}
	}
	return ops
}

// bootID returns the boot id of that index; -1 is one that no manager has.
func (r *recorder) bootID(boot int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if boot < 0 {
		return ^r.boots[0]
	}
	return r.boots[boot]
}

// perform sends a burst and enters what came of it.
func (r *recorder) perform(ctx context.Context, s *session, ops []*Operation, b burst) error {
	r.mu.Lock()
	conn := slices.Index(r.sessions, s)
	for _, o := range ops {
		o.Conn = conn
		r.ops = append(r.ops, o)
		if len(r.ops) == r.plan.after {
			close(r.stop)
		}
	}
	r.mu.Unlock()
	err := s.perform(ctx, ops, b, r.bootID)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range ops {
		if o.Known() && o.Kind == Run && o.Answer.Run != 0 && s.conn.Boot == len(r.boots)-1 && !slices.Contains(r.ids, o.Answer.Run) {
			r.ids = append(r.ids, o.Answer.Run)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ops[len(ops)-1].Label(), err)
	}
	return nil
}

// history returns what was recorded. Every connection has ended.
func (r *recorder) history(name string, seed uint64) *History {
	h := &History{Name: name, Seed: seed, Boots: r.boots}
	sort.SliceStable(r.ops, func(i, j int) bool { return r.ops[i].Call < r.ops[j].Call })
	number := map[*Operation]int{}
	for i, o := range r.ops {
		number[o] = i
		h.Operations = append(h.Operations, *o)
	}
	for _, s := range r.sessions {
		c := *s.conn
		c.Ending = s.ending(r.stayed[s], r.died[c.Boot])
		c.Arrivals = make([]Arrival, len(s.arrived))
		for i, a := range s.arrived {
			c.Arrivals[i] = Arrival{At: a.at, Op: -1, Event: a.event, Stray: a.stray}
			if a.op != nil {
				c.Arrivals[i].Op = number[a.op]
			}
		}
		h.Conns = append(h.Conns, c)
	}
	return h
}
