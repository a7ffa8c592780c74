// Package tunnel is the model of the verified tunnel: two pinned keys, in-order
// frames and a proven end of stream, against a path that drops, swaps, replays
// and changes frames, forges closes and hangs up.
//
// Keys are symbols: a handshake message is made by someone, for a port; a sealed
// frame opens only in its session and at its position. What the path may do is
// bounded by a budget. Without protocol 2 ([Config.Ready] false) the structure is
// the one whose counts were published; with it, the daemon dials once the ready
// message has opened, both deadlines exist, and the prologue binds the port.
package tunnel

import "microvms/model"

// The actions.
const (
	ClientHello uint16 = iota
	ClientSend
	ClientLocalEof
	GuestSend
	GuestEof
	ImpostorSend
	Deliver
	Drop
	Swap
	Replay
	ForgeClose
	HangUp
	Strip
	HelloDeadline
	ReadyDeadline
	actionCount
)

var dirNames = map[string][]string{"dir": {"to-far", "to-client"}}

// Actions returns the actions, indexed by their ids. The slice is fresh.
func Actions() []model.ActionInfo {
	dir := []string{"dir"}
	return []model.ActionInfo{
		ClientHello:    {Name: "ClientHello"},
		ClientSend:     {Name: "ClientSend"},
		ClientLocalEof: {Name: "ClientLocalEof"},
		GuestSend:      {Name: "GuestSend"},
		GuestEof:       {Name: "GuestEof"},
		ImpostorSend:   {Name: "ImpostorSend"},
		Deliver:        {Name: "Deliver", Params: dir, Values: dirNames},
		Drop:           {Name: "Drop", Params: dir, Values: dirNames},
		Swap:           {Name: "Swap", Params: dir, Values: dirNames},
		Replay:         {Name: "Replay", Params: []string{"dir", "frame"}, Values: dirNames},
		ForgeClose:     {Name: "ForgeClose", Params: dir, Values: dirNames},
		HangUp:         {Name: "HangUp"},
		Strip:          {Name: "Strip", Params: dir, Values: dirNames},
		HelloDeadline:  {Name: "HelloDeadline"},
		ReadyDeadline:  {Name: "ReadyDeadline"},
	}
}

type step = model.Step[State]

// next appends every enabled step.
func (c *Config) next(s State, out []step) []step {
	out = c.clientSteps(s, out)
	out = c.farSteps(s, out)
	for _, d := range [...]Dir{ToFar, ToClient} {
		out = c.deliverStep(s, d, out)
	}
	out = c.deadlineSteps(s, out)
	if s.Budget > 0 && !s.HungUp && !(c.Ready && s.Client.Phase == Idle) {
		out = c.pathSteps(s, out)
	}
	return out
}

func (c *Config) clientSteps(s State, out []step) []step {
	k := s.Client
	if k.Phase == Idle {
		n := s
		n.Client.Phase = Hello
		c.send(&n, ToFar, Frame{Kind: HelloFrame, A: bit(c.Caller == Launcher), B: bit(c.clientOffers()), C: clientPort})
		out = append(out, step{Action: model.Act(ClientHello), State: n})
	}
	if k.Phase != Relaying || s.HungUp {
		return out
	}
	n := s
	if k.Sent < c.CallerBytes {
		c.sealClient(&n, byteItem+k.Sent)
		n.Client.Sent++
		return append(out, step{Action: model.Act(ClientSend), State: n})
	}
	if c.clientOffers() {
		c.sealClient(&n, endItem)
	}
	c.send(&n, ToFar, normalClose)
	n.Client.Phase, n.Client.End, n.Client.EndedFirst = Done, Closed, true
	return append(out, step{Action: model.Act(ClientLocalEof), State: n})
}

func (c *Config) farSteps(s State, out []step) []step {
	d := s.Far
	if d.Done || !d.Established || s.HungUp {
		return out
	}
	n := s
	if c.Impostor {
		if d.Relayed == 0 {
			n.Far.Relayed = 1
			c.sealFar(&n, impostorItem)
			out = append(out, step{Action: model.Act(ImpostorSend), State: n})
		}
		return out
	}
	if !d.Dialed {
		return out
	}
	if d.Relayed < c.Guest {
		c.sealFar(&n, byteItem+d.Relayed)
		n.Far.Relayed++
		return append(out, step{Action: model.Act(GuestSend), State: n})
	}
	n.Far.GuestEndedFirst = true
	if c.daemonOffers() {
		c.sealFar(&n, endItem)
		n.Far.SentEnd = true
	}
	c.send(&n, ToClient, normalClose)
	n.Far.Guest, n.Far.Done = Eof, true
	return append(out, step{Action: model.Act(GuestEof), State: n})
}

func (c *Config) deliverStep(s State, d Dir, out []step) []step {
	done, otherDone := s.Far.Done, s.Client.Phase == Done
	if d == ToClient {
		done, otherDone = otherDone, done
	}
	n := s
	var f Frame
	hungUp := false
	switch {
	case s.Flight[d].Len > 0:
		f = n.Flight[d].pop()
	case (s.HungUp || (c.Ready && otherDone)) && !done:
		hungUp = true // a side that is done closes its connection: that no path can hide for ever
	default:
		return out
	}
	if d == ToFar {
		c.farDeliver(&n, f, hungUp)
	} else {
		c.clientDeliver(&n, f, hungUp)
	}
	if n == s {
		return out
	}
	return append(out, step{Action: model.Act(Deliver, uint8(d)), State: n})
}

// deadlineSteps are the daemon's two deadlines: a caller that does not prove
// itself in time, and one that does not say that it is ready.
func (c *Config) deadlineSteps(s State, out []step) []step {
	if !c.Ready || s.Far.Done || s.Client.Phase == Idle || c.Impostor {
		return out
	}
	n := s
	switch {
	case !s.Far.Established:
		c.farRefuse(&n)
		out = append(out, step{Action: model.Act(HelloDeadline), State: n})
	case !s.Far.Ready && c.Deviation != NoReadyDeadline && c.Deviation != NoReadyNeeded:
		if c.Deviation == LateIsReady {
			n.Far.Ready, n.Far.Dialed, n.Far.DialedPort = true, true, c.servedPort()
		} else {
			c.farRefuse(&n)
		}
		out = append(out, step{Action: model.Act(ReadyDeadline), State: n})
	}
	return out
}

// pathSteps are what the attacker on the path may do.
func (c *Config) pathSteps(s State, out []step) []step {
	act := func(id uint16, d Dir, change func(n *State)) {
		n := s
		n.Budget--
		n.Touched = true
		change(&n)
		out = append(out, step{Action: model.Act(id, uint8(d)), State: n})
	}
	for _, d := range [...]Dir{ToFar, ToClient} {
		q := s.Flight[d]
		if q.Len > 0 {
			act(Drop, d, func(n *State) { n.Flight[d].pop() })
		}
		if q.Len > 1 && (!c.Ready || q.Frames[0] != q.Frames[1]) {
			act(Swap, d, func(n *State) {
				f := &n.Flight[d].Frames
				f[0], f[1] = f[1], f[0]
			})
		}
		for i, f := range s.Seen[d].Frames[:s.Seen[d].Len] {
			n := s
			n.Budget--
			n.Touched = true
			n.Flight[d].push(f)
			out = append(out, step{Action: model.Act(Replay, uint8(d), uint8(i)), State: n})
		}
		act(ForgeClose, d, func(n *State) { n.Flight[d].push(normalClose) })
		out = c.stripSteps(s, d, out)
	}
	if s.Client.Phase != Idle {
		n := s
		n.Budget--
		n.Touched, n.HungUp = true, true
		n.Flight = [2]Queue{}
		out = append(out, step{Action: model.Act(HangUp), State: n})
	}
	return out
}

// stripSteps take the offer out of a handshake message in flight. Under the
// specified rule the offer is sealed, so the message is spoilt by it.
func (c *Config) stripSteps(s State, d Dir, out []step) []step {
	if s.Flight[d].Len == 0 || (!c.Ready && c.Deviation != OfferInClear) {
		return out
	}
	f := s.Flight[d].Frames[0]
	if f.Kind != HelloFrame && f.Kind != ReplyFrame {
		return out
	}
	n := s
	if c.Deviation == OfferInClear {
		if f.B == 0 {
			return out
		}
		n.Flight[d].Frames[0].B = 0
	} else {
		n.Flight[d].Frames[0] = Frame{Kind: Mangled}
	}
	n.Budget--
	n.Touched = true
	return append(out, step{Action: model.Act(Strip, uint8(d)), State: n})
}
