package manager

// claims counts, for each requirement, the operations and the messages of a judged
// history that showed it: the case of the rule was met, and what was seen is
// what the rule and the model allow there.
func (h *History) claims(count map[string]int64) {
	w := watched(h)
	c := claimer{h: h, w: w, count: count, requested: map[runKey]bool{}}
	for i := range h.Conns {
		c.conn(i)
	}
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Kind != Shutdown {
			c.operation(o)
		}
	}
	if len(h.Boots) > 1 {
		count["MGR-25"]++
	}
}

type claimer struct {
	h         *History
	w         *watch
	count     map[string]int64
	requested map[runKey]bool // a run reply named it before
}

func (c *claimer) add(ids ...string) {
	for _, id := range ids {
		c.count[id]++
	}
}

// operation is what a reply, or its absence, shows.
func (c *claimer) operation(o *Operation) {
	boot := c.h.boot(o)
	if o.Cut == CutBefore {
		c.add("SOCKET-31")
	}
	if !o.Known() {
		return
	}
	c.add("SOCKET-18", "SOCKET-19")
	a := o.Answer
	switch {
	case a.Code == bootMismatch:
		c.add("MGR-18")
	case o.Kind != Run && c.w.runs[runKey{boot, o.Run}] == nil:
		c.add("MGR-19")
	case o.Kind == Run:
		c.run(o, boot)
	case a.Code == unknownID:
		c.add("MGR-19")
		if o.Kind == Read {
			c.add("SOCKET-25")
		}
	case a.Code == notFinished:
		c.add("MGR-20")
	case o.Kind == Attach:
		c.add("MGR-17", "MGR-29")
	case o.Kind == Read:
		c.add("MGR-22", "MGR-29")
	case o.Kind == Ack:
		c.add("MGR-20")
		if c.toldAfter(o, boot) {
			c.add("MGR-21")
		}
	case o.Kind == Cancel:
		c.cancel(o, boot)
	}
}

// run is what a run reply shows.
func (c *claimer) run(o *Operation, boot int) {
	if o.Answer.Code == internal {
		c.add("MGR-24")
		return
	}
	c.add("MGR-1", "MGR-2")
	k := runKey{boot, o.Answer.Run}
	if c.requested[k] {
		c.add("MGR-3", "MGR-4", "MGR-28")
	} else if !o.Bare {
		for other, f := range c.w.runs {
			if other.boot == boot && other.id < k.id && f.owner == o.owner() {
				c.add("MGR-5")
				break
			}
		}
	}
	c.requested[k] = true
}

// toldAfter reports whether an ending arrived somewhere behind the release of its
// run.
func (c *claimer) toldAfter(ack *Operation, boot int) bool {
	for _, conn := range c.h.Conns {
		for _, a := range conn.Arrivals {
			if conn.Boot == boot && a.Event != nil && a.Event.Run == ack.Run && a.Event.Ended() && a.At > ack.Call {
				return true
			}
		}
	}
	return false
}

// cancel is what an accepted cancel shows, by how the run ended in the end.
func (c *claimer) cancel(o *Operation, boot int) {
	f := c.w.runs[runKey{boot, o.Run}]
	switch {
	case f.ending == nil:
	case f.ending.Cause != "cancelled":
		c.add("MGR-13", "MGR-27")
	default:
		c.add("MGR-13")
	}
}

// conn is what a connection as a whole shows.
func (c *claimer) conn(i int) {
	conn := &c.h.Conns[i]
	c.add("SOCKET-1", "SOCKET-13")
	if conn.Ending == Cutoff {
		c.add("MGR-16", "SOCKET-21")
	}
	if conn.Ending == Closed {
		c.add("SOCKET-24")
	}
	for _, a := range conn.Arrivals {
		t := a.Event
		switch {
		case t == nil:
		case t.Kind == started:
			c.add("MGR-8")
		default:
			c.add("MGR-6")
			if t.Kind == failedToStart {
				c.add("MGR-7")
			}
			if t.Cause == "shutdown" {
				c.add("MGR-24")
			}
			// Whoever is told an ending was subscribed before, and would have been told of a start.
			if t.Cause == "cancelled" && !c.w.run(conn.Boot, t.Run).started {
				c.add("MGR-11", "MGR-12")
			}
		}
	}
}
