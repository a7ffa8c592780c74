package manager

import "slices"

// builder writes a small history by hand: one thing after another, unless an
// operation is told to stay open.
type builder struct {
	h    History
	time int64
}

// built is a history of that many connections, each of which stays.
func built(conns int, steps ...func(*builder)) *History {
	b := &builder{h: History{Name: "planted", Boots: []uint64{7}}}
	for range conns {
		b.h.Conns = append(b.h.Conns, Conn{Client: len(b.h.Conns), Hello: 7, Ending: Stayed})
	}
	for _, s := range steps {
		s(b)
	}
	return &b.h
}

// add enters an operation with its reply.
func (b *builder) add(o Operation) *Operation {
	b.time += 10
	o.Call, o.Return = b.time, b.time+5
	if o.Kind != Shutdown {
		c := &b.h.Conns[o.Conn]
		o.Client = c.Client
		if o.Kind != Attach {
			o.Boot = c.Boot
		}
		if o.Known() {
			c.Arrivals = append(c.Arrivals, Arrival{At: o.Return, Op: len(b.h.Operations)})
		} else {
			o.Return = -1
			c.Ending = Cutoff
		}
	}
	b.h.Operations = append(b.h.Operations, o)
	return &b.h.Operations[len(b.h.Operations)-1]
}

func token(text string) *string { return &text }

// runs is a run request with token "a" that is given an id.
func runs(conn int, p Program, id uint64) func(*builder) {
	return func(b *builder) {
		b.add(Operation{Conn: conn, Kind: Run, Token: "a", Program: p, Text: "text", Answer: &Answer{Run: id}})
	}
}

// bare is a run request without a token.
func bare(conn int, p Program, id uint64) func(*builder) {
	return func(b *builder) {
		b.add(Operation{Conn: conn, Kind: Run, Bare: true, Program: p, Text: "text", Answer: &Answer{Run: id}})
	}
}

// asks is a request that names a run, with what it is answered: "" is {}.
func asks(conn int, k Kind, id uint64, code string) func(*builder) {
	return func(b *builder) { b.add(Operation{Conn: conn, Kind: k, Run: id, Answer: &Answer{Code: code}}) }
}

// attaches is an attach that shows something.
func attaches(conn int, t Told) func(*builder) {
	return func(b *builder) {
		b.add(Operation{Conn: conn, Kind: Attach, Run: t.Run, Answer: &Answer{Snapshot: &t}})
	}
}

// reads is a page from the beginning.
func reads(conn int, id uint64, data string) func(*builder) {
	return func(b *builder) {
		b.add(Operation{Conn: conn, Kind: Read, Run: id, Field: "stdout", Max: 100, Answer: &Answer{Total: uint64(len(data)), Data: data}})
	}
}

// event is an event that arrives.
func event(conn int, t Told) func(*builder) {
	return func(b *builder) {
		b.time += 10
		b.h.Conns[conn].Arrivals = append(b.h.Conns[conn].Arrivals, Arrival{At: b.time, Op: -1, Event: &t})
	}
}

// cutOff is a request whose outcome nobody knows, on a connection that it ends.
func cutOff(conn int, o Operation) func(*builder) {
	return func(b *builder) {
		o.Conn = conn
		if o.Cut == NoCut {
			o.Cut = CutAfter
		}
		b.add(o)
	}
}

// lost is a request whose reply arrives and is not looked at, on a connection that
// it ends.
func lost(conn int, o Operation) func(*builder) {
	return func(b *builder) {
		o.Conn, o.Cut = conn, Dropped
		p := b.add(o)
		p.Return = p.Call + 5
		c := &b.h.Conns[conn]
		c.Arrivals = append(c.Arrivals, Arrival{At: p.Return, Op: len(b.h.Operations) - 1})
	}
}

// shuts is a shutdown, whose end nobody saw.
func shuts(b *builder) {
	b.add(Operation{Client: -1, Kind: Shutdown, Answer: &Answer{}}).Return = -1
	for i := range b.h.Conns {
		b.h.Conns[i].Ending = Closed
	}
}

// boots kills the manager; connection conn is one to its successor.
func boots(conn int) func(*builder) {
	return func(b *builder) {
		for i := range b.h.Conns {
			b.h.Conns[i].Ending = Died
		}
		b.h.Boots = append(b.h.Boots, 8)
		b.h.Conns[conn] = Conn{Client: conn, Boot: 1, Hello: 8, Ending: Stayed}
	}
}

// tampers changes what was built so far.
func tampers(change func(h *History)) func(*builder) { return func(b *builder) { change(&b.h) } }

// swaps exchanges the last two arrivals of a connection.
func swaps(conn int) func(*builder) {
	return tampers(func(h *History) {
		a := h.Conns[conn].Arrivals
		n := len(a)
		a[n-1], a[n-2] = a[n-2], a[n-1]
		a[n-1].At, a[n-2].At = a[n-2].At, a[n-1].At
	})
}

// What is told of run id with token "a".
func isQueued(id uint64) Told  { return Told{Kind: queued, Run: id, Token: token("a")} }
func isStarted(id uint64) Told { return Told{Kind: started, Run: id, Token: token("a")} }
func isFailed(id uint64) Told  { return Told{Kind: failedToStart, Run: id, Token: token("a")} }

func isEnded(id uint64, cause string) Told {
	t := Told{Kind: finished, Run: id, Token: token("a"), Cause: cause, At: "then"}
	if cause == "exited" {
		code := int64(ExitCode)
		t.Code, t.Stdout = &code, 4
	}
	return t
}

// nobody takes the token away.
func nobody(t Told) Told {
	t.Token = nil
	return t
}

// all joins steps.
func all(steps ...[]func(*builder)) []func(*builder) { return slices.Concat(steps...) }

func steps(s ...func(*builder)) []func(*builder) { return s }
