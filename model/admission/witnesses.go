package admission

import "microvms/model"

// Names of witnesses that properties are paired with.
const (
	full        = "every slot is taken"
	tunnelEnds  = "a tunnel ends and a newcomer has its slot"
	waits       = "a newcomer waits"
	makesRoom   = "a connection that asks nothing makes room"
	goesOn      = "a connection is asked, and its request is served"
	stalls      = "an upload that stalls makes room"
	moves       = "an upload moves after its grace"
	ignored     = "an answer that nobody reads makes room"
	completes   = "a body is complete while a newcomer waits, and is answered"
	announced   = "an answer announces the end, and a newcomer is admitted"
	upgraded    = "a connection is upgraded while a newcomer waits"
	silence     = "a silent connection is closed"
	atHookCap   = "a hook body of exactly the cap is taken"
	drained     = "a connection is kept after a drain"
	cut         = "a refused body is cut off"
	refusal     = "a caller is refused before its body"
	largeUnread = "a large body is refused unread"
)

func (c *Config) witnesses() []stated {
	crowded := c.crowded()
	victim := func(p Phase) when {
		return func(from State, a action, to State) bool {
			i := closed(&from, a, &to)
			return i < MaxConns && from.Conns[i].Phase == p
		}
	}
	return []stated{
		{true, model.Sometimes(full, func(s State) bool { return s.open() == c.Cap }, "XPORT-4")},
		{crowded && c.has(Upgrade), model.SometimesStep(tunnelEnds, func(from State, a action, to State) bool {
			return a.ID == ClientClose && from.Conns[a.Arg[0]].Phase == Tunnel && from.any(Backlog) && !to.any(Backlog)
		}, "XPORT-4")},
		{crowded, model.Sometimes(waits, func(s State) bool { return s.any(Backlog) }, "XPORT-4", "XPORT-5", "XPORT-31")},
		{crowded, model.SometimesStep(makesRoom, victim(Waiting), "XPORT-5", "XPORT-30")},
		{c.Unread, model.SometimesStep(goesOn, func(from State, a action, _ State) bool {
			return a.ID == Request && from.Asked == a.Arg[0]+1
		}, "XPORT-30")},
		{crowded && c.has(Upload), model.SometimesStep(stalls, victim(Uploading), "XPORT-31")},
		{crowded && c.has(Hook, Upload), model.SometimesStep(completes, func(from State, a action, _ State) bool {
			return a.ID == Finish && from.Conns[a.Arg[0]].Phase.Complete() && from.any(Backlog)
		}, "XPORT-31")},
		{c.has(Upload), model.SometimesStep(moves, func(from State, a action, _ State) bool {
			return a.ID == BodyPiece && from.Conns[a.Arg[0]].Phase == Uploading && from.Conns[a.Arg[0]].Ripe
		}, "XPORT-31")},
		{crowded && c.has(Ignored), model.SometimesStep(ignored, victim(Sending), "XPORT-31")},
		{crowded, model.SometimesStep(announced, func(from State, a action, to State) bool {
			return contended(from, a, to) && !to.any(Backlog)
		}, "XPORT-32")},
		{crowded && c.has(Upgrade), model.SometimesStep(upgraded, func(from State, a action, _ State) bool {
			return a.ID == Request && Status(a.Arg[2]) == Switching && from.any(Backlog)
		}, "XPORT-32")},
		{c.Deadlines, model.SometimesStep(silence, silent, "XPORT-6")},
		{c.has(Hook), model.SometimesStep(atHookCap, func(from State, a action, _ State) bool {
			return a.ID == BodyEnd && from.Conns[a.Arg[0]].Phase == HookBody && from.Conns[a.Arg[0]].Got == HookCap
		}, "XPORT-8", "XPORT-9")},
		{c.has(Refused), model.SometimesStep(drained, func(from State, a action, to State) bool {
			i := a.Arg[0]
			return a.ID == BodyEnd && from.Conns[i].Phase == Draining && from.Conns[i].Got > 0 && to.Conns[i].Phase == Waiting
		}, "XPORT-7", "XPORT-17")},
		{c.has(Refused), model.SometimesStep(cut, func(from State, a action, to State) bool {
			return a.ID == BodyPiece && from.Conns[a.Arg[0]].Phase == Draining && to.Conns[a.Arg[0]].Phase == Absent
		}, "XPORT-7", "XPORT-17")},
		{c.has(Refused), model.SometimesStep(refusal, func(_ State, a action, to State) bool {
			return a.ID == Request && a.Arg[2] == uint8(Unauthorized)
		}, "AUTHZ-4")},
		{c.has(TooLarge), model.SometimesStep(largeUnread, func(_ State, a action, _ State) bool {
			return a.ID == Request && a.Arg[2] == uint8(TooMuch)
		}, "XPORT-10")},
	}
}

// liveness states that who is slow does not keep a slot.
func (c *Config) liveness() []property {
	var out []property
	for _, p := range []struct {
		name  string
		kind  Kind
		phase Phase
		id    string
	}{
		{"a wait for a header ends", c.Kinds[0], Waiting, "XPORT-6"},
		{"a wait for a hook body ends", Hook, HookBody, "XPORT-9"},
		{"a drain ends", Refused, Draining, "XPORT-17"},
		{"an upload that stalls ends", Upload, Uploading, "XPORT-21"},
		{"an answer that nobody reads ends", Ignored, Sending, "XPORT-27"},
	} {
		if !c.has(p.kind) {
			continue
		}
		out = append(out, model.LeadsTo(p.name,
			func(s State) bool { return s.Conns[0].Phase == p.phase }, func(s State) bool { return s.Conns[0].Phase != p.phase }, p.id))
	}
	return out
}
