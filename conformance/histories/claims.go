package histories

// claims counts, for each requirement, the operations of a judged history that showed it: the case of the rule was
// met, and the answer was one that the sequential specification allows there.
func (h *History) claims(count map[string]int64) {
	switch h.Scope {
	case ByPath:
		h.fileClaims(count)
		return
	case ByTunnel:
		h.tunnelClaims(count)
		return
	}
	seen := newClaimer(h)
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Cut != NoCut {
			// EXEC-35 speaks of clients that vanish: whatever they left behind was judged with the rest.
			count["EXEC-35"]++
		}
		if !o.Known() {
			continue
		}
		for _, id := range seen.shown(o) {
			count[id]++
		}
	}
}

// claimer holds what the claims of one operation depend on beyond it.
type claimer struct {
	installed bool            // a hook was answered 200 before
	started   map[string]bool // an exec's start was answered 200 before
	starts    map[string][]*Operation
	child     map[string]Child
}

func newClaimer(h *History) *claimer {
	c := &claimer{started: map[string]bool{}, starts: map[string][]*Operation{}, child: map[string]Child{}}
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Kind == Start {
			c.starts[o.Exec] = append(c.starts[o.Exec], o)
			c.child[o.Exec] = o.Child
		}
	}
	return c
}

// shown returns the requirements that an answered operation shows.
func (c *claimer) shown(o *Operation) []string {
	a := o.Answer
	if o.Kind == Hook {
		return append(c.hook(a), "HOOK-1")
	}
	if o.Kind == Health {
		return nil
	}
	switch a.Status {
	case 503:
		return []string{"AGENTD-1"}
	case 401:
		return []string{"AGENTD-5"}
	}
	ids := []string{"AGENTD-6"}
	if a.Code == "unknown_exec" {
		return append(ids, "EXEC-30")
	}
	switch o.Kind {
	case Start:
		return append(ids, c.start(o)...)
	case Poll:
		ids = append(ids, "EXEC-21")
		if a.Outcome {
			ids = append(append(ids, "EXEC-22"), c.result(o)...)
		}
	case Ack:
		switch {
		case a.Status == 200:
			ids = append(append(ids, "EXEC-24", "EXEC-27"), c.result(o)...)
		case a.Code == "still_running":
			ids = append(ids, "EXEC-25")
		default:
			ids = append(ids, "EXEC-26")
		}
	case Kill:
		if a.Killed {
			return append(ids, "KILL-1")
		}
		return append(ids, "KILL-5")
	case Stdin:
		switch a.Status {
		case 409:
			ids = append(ids, "STDIN-2")
		case 410:
			ids = append(ids, "STDIN-6")
		}
	case Stream:
		ids = append(ids, c.stream(o)...)
	}
	return ids
}

func (c *claimer) hook(a *Answer) []string {
	switch {
	case a.Status == 409:
		return []string{"AGENTD-3"}
	case a.Status == 200 && c.installed:
		return []string{"AGENTD-4"}
	case a.Status == 200:
		c.installed = true
		return []string{"AGENTD-2"}
	}
	return nil
}

func (c *claimer) start(o *Operation) []string {
	if o.Answer.Code == "spawn_failed" {
		return []string{"EXEC-5"}
	}
	if o.Answer.Code == "unknown_user" {
		return []string{"AGENTD-8", "EXEC-6"}
	}
	ids := []string{"EXEC-2"}
	if o.User == UnknownUser {
		return append(ids, "EXEC-4") // known, so its name was not looked at
	}
	if !c.started[o.Exec] {
		ids = []string{"EXEC-1"}
	}
	c.started[o.Exec] = true
	for _, other := range c.starts[o.Exec] {
		if other.Client != o.Client && other.Known() && other.Answer.Status == 200 && other.Call <= o.Return && o.Call <= other.Return {
			return append(ids, "EXEC-3")
		}
	}
	return ids
}

// result is what the content of a result shows.
func (c *claimer) result(o *Operation) []string {
	a := o.Answer
	var ids []string
	if len(a.Stdout) >= Unit {
		ids = append(ids, "HOOK-11") // it begins with the environment that the child was given
	}
	if len(a.Stdout) > Unit {
		ids = append(ids, "STDIN-3")
	}
	if a.Signal != nil && *a.Signal == 15 {
		ids = append(ids, "KILL-13")
	}
	if c.child[o.Exec] == Echo && a.ExitCode != nil {
		ids = append(ids, "STDIN-4") // it ended by the end of input that a client asked for
	}
	return ids
}

func (c *claimer) stream(o *Operation) []string {
	a := o.Answer
	ids := []string{"OUT-6"}
	if a.Bytes != "" && a.Lost == 0 {
		ids = append(ids, "OUT-5")
	}
	if a.Lost > 0 {
		ids = append(ids, "OUT-7")
	}
	if a.Exited {
		return append(ids, "OUT-8", "OUT-18")
	}
	return append(ids, "OUT-12") // it left before the end, and the exec went on as if it had not been there
}
