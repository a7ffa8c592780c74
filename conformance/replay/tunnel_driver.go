package replay

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"microvms/model/tunnel"
)

// Tunnel replays the model of the verified tunnel with the real client and a
// real daemon. Between them stands a proxy that holds every WebSocket frame and
// obeys the model's path.
//
// The table of actions and operations:
//
//	ClientHello     DialTunnel
//	ClientSend      Write of one byte
//	ClientLocalEof  Close
//	GuestSend       the guest writes one byte
//	GuestEof        the guest ends its writing side
//	Deliver         the proxy hands on its oldest frame, or ends the connection
//	Drop, Swap, Replay, ForgeClose, HangUp, Strip
//	                the proxy does this to the frames that it holds
//	HelloDeadline, ReadyDeadline
//	                the daemon's clock is moved by ten seconds
//
// What is compared after each step: how many frames are in flight each way, how
// the client's tunnel ended and what it delivered, whether the daemon accepted
// the handshake, read the ready message, dialed and is done, and what the guest
// got and how its connection ended.
func Tunnel(c tunnel.Config, target string, start Starter) Spec[tunnel.State] {
	return Spec[tunnel.State]{
		Name: "tunnel-" + c.Name, Target: target, Model: tunnel.New(c), StepTimeout: 20 * time.Second,
		Start: func(ctx context.Context, _ tunnel.State) (Driver[tunnel.State], error) {
			s, err := newTunnelSystem(ctx, start, c)
			if err != nil {
				return nil, err
			}
			return &tunnelDriver{s}, nil
		},
		Project: func(t Transition[tunnel.State]) Observation { return projectTunnel(t.To) },
	}
}

// helloTimeout is the daemon's default for both deadlines (wire facts, section
// 10.3).
const tunnelDeadline = 10 * time.Second

type tunnelDriver struct{ s *tunnelSystem }

// Do performs one operation.
func (d *tunnelDriver) Do(ctx context.Context, t Transition[tunnel.State]) error {
	s, dir := d.s, tunnel.Dir(t.Action.Arg[0])
	switch t.Action.ID {
	case tunnel.ClientHello:
		s.hello()
	case tunnel.ClientSend:
		_, err := s.conn().Write([]byte{'A' + t.From.Client.Sent})
		return err
	case tunnel.ClientLocalEof:
		s.wg.Go(func() { _ = s.conn().Close() }) // waits for an answer that the path may hold
	case tunnel.GuestSend:
		_, err := s.guest.open().Write([]byte{'a' + t.From.Far.Relayed})
		return err
	case tunnel.GuestEof:
		return s.guest.open().CloseWrite()
	case tunnel.Deliver:
		d.deliver(t, dir)
	case tunnel.Drop:
		s.path.drop(dir)
	case tunnel.Swap:
		s.path.swap(dir)
	case tunnel.Replay:
		s.path.replay(dir, int(t.Action.Arg[1]))
	case tunnel.ForgeClose:
		s.path.forgeClose(dir)
	case tunnel.HangUp:
		s.path.hangUp()
	case tunnel.Strip:
		s.path.strip(dir)
	case tunnel.HelloDeadline, tunnel.ReadyDeadline:
		return d.expire(ctx)
	default:
		return fmt.Errorf("no operation for action %d", t.Action.ID)
	}
	return nil
}

func (d *tunnelDriver) deliver(t Transition[tunnel.State], dir tunnel.Dir) {
	d.s.path.deliver(dir)
	if dir == tunnel.ToClient && t.To.Client.Phase == tunnel.Done && t.From.Client.Phase == tunnel.Relaying {
		// Its owner learns of the end and lets go of it.
		d.s.wg.Go(func() {
			c := d.s.conn()
			<-c.Done()
			_ = c.Close()
		})
	}
}

// expire moves the clock to the one deadline that the daemon waits for.
func (d *tunnelDriver) expire(ctx context.Context) error {
	clock := d.s.daemon.Clock
	if err := clock.Await(ctx, func(pending []time.Duration) bool { return len(pending) == 1 }); err != nil {
		return fmt.Errorf("the daemon waits for %v: %w", clock.Pending(), err)
	}
	if left := clock.Pending()[0]; left != tunnelDeadline {
		return fmt.Errorf("the deadline is in %v, want %v", left, tunnelDeadline)
	}
	clock.Advance(tunnelDeadline)
	return nil
}

// Observe reads the state back. What a step sets off takes its time, so it is
// read again at each change until it is what the model says, or time is up.
func (d *tunnelDriver) Observe(ctx context.Context, t Transition[tunnel.State]) (Observation, error) {
	want := projectTunnel(t.To)
	for {
		d.s.mu.Lock()
		changed := d.s.changed
		d.s.mu.Unlock()
		recorder := d.s.daemon.Recorder
		recorder.mu.Lock()
		recorded := recorder.changed
		recorder.mu.Unlock()
		got, err := d.look(t)
		if err != nil || compare(got, want) == "" {
			return got, err
		}
		select {
		case <-changed:
		case <-recorded:
		case <-ctx.Done():
			return got, nil
		}
	}
}

func (d *tunnelDriver) look(t Transition[tunnel.State]) (Observation, error) {
	s := d.s
	far, toClient, err := s.path.lengths()
	if err != nil {
		return nil, err
	}
	end, err := s.clientEnd()
	if err != nil {
		return nil, err
	}
	established, ready, dialed, done := s.farWords()
	connected, guestGot, guestEnd := s.guest.saw()
	// A guest that ended first has ended by itself, whatever it reads later.
	if t.To.Far.GuestEndedFirst {
		guestEnd = tunnel.Eof
	}
	s.mu.Lock()
	received, relaying := string(s.received), s.tunnel != nil
	s.mu.Unlock()
	if end != tunnel.NoEnd {
		relaying = false
	}
	return Observation{
		{Name: "to the daemon", Value: strconv.Itoa(far)},
		{Name: "to the client", Value: strconv.Itoa(toClient)},
		{Name: "client relays", Value: strconv.FormatBool(relaying)},
		{Name: "client's end", Value: end.String()},
		{Name: "client got", Value: received},
		{Name: "established", Value: strconv.FormatBool(established)},
		{Name: "ready", Value: strconv.FormatBool(ready)},
		{Name: "dialed", Value: strconv.FormatBool(dialed)},
		{Name: "connected", Value: strconv.FormatBool(connected)},
		{Name: "daemon is done", Value: strconv.FormatBool(done)},
		{Name: "guest", Value: guestEnd.String()},
		{Name: "guest got", Value: guestGot},
	}, nil
}

// projectTunnel is what must be observed of a state.
func projectTunnel(s tunnel.State) Observation {
	flag := strconv.FormatBool
	return Observation{
		{Name: "to the daemon", Value: strconv.Itoa(int(s.Flight[tunnel.ToFar].Len))},
		{Name: "to the client", Value: strconv.Itoa(int(s.Flight[tunnel.ToClient].Len))},
		{Name: "client relays", Value: flag(s.Client.Phase == tunnel.Relaying)},
		{Name: "client's end", Value: s.Client.End.String()},
		{Name: "client got", Value: items(s.Client.Received, 'a')},
		{Name: "established", Value: flag(s.Far.Established)},
		{Name: "ready", Value: flag(s.Far.Ready)},
		{Name: "dialed", Value: flag(s.Far.Dialed)},
		{Name: "connected", Value: flag(s.Far.Dialed)},
		{Name: "daemon is done", Value: flag(s.Far.Done)},
		{Name: "guest", Value: s.Far.Guest.String()},
		{Name: "guest got", Value: items(s.Far.GuestReceived, 'A')},
	}
}

// items renders the bytes that a party got.
func items(i tunnel.Items, first byte) string {
	out := make([]byte, i.Len)
	for n := range out {
		out[n] = first + i.Bytes[n]
	}
	return string(out)
}

// Close ends the system.
func (d *tunnelDriver) Close() error { return d.s.close() }
