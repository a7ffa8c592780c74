package replay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/model"
	"microvms/model/admission"
)

// admissionUnit is the number of bytes that a piece in the model is.
const admissionUnit = 512

// The deadlines that a daemon under the admission model must be given: no two
// are alike, so that each shows which one is held over a connection.
const (
	headerHours = 1 * time.Hour
	hookHours   = 2 * time.Hour
	drainHours  = 3 * time.Hour
)

// AdmissionOptions are what the driver of the admission model asks of the
// daemon that is started for it.
type AdmissionOptions struct {
	Hold                                      func(p trace.Point) bool
	Slots                                     int
	HookBytes, DrainBytes, BodyBytes          int64
	HeaderTimeout, HookTimeout, DrainDeadline time.Duration
}

// AdmissionDaemon is a daemon that serves on Sockets.
type AdmissionDaemon struct {
	*Daemon
	Sockets *Sockets
}

// AdmissionStarter starts a fresh daemon in the test process.
type AdmissionStarter func(ctx context.Context, o AdmissionOptions) (*AdmissionDaemon, error)

// Admission replays how connections are admitted, and what they may send, over
// real sockets.
//
// The table of actions and operations:
//
//	Dial         connect; it is accepted, and admitted or not
//	Request      send a header, and read the answer that the model says
//	BodyPiece    send a chunk, likewise
//	BodyEnd      send the last chunk, likewise
//	Finish       let the handler go that stands before ControlServe, likewise
//	Deadline     let the read deadline pass that the daemon holds over the connection
//	ClientClose  close
//
// After each step it waits until every connection that the model ends has seen
// its end, and until the others have the deadlines that they must have.
func Admission(c admission.Config, start AdmissionStarter) Spec[admission.State] {
	return Spec[admission.State]{
		Name: "admission-" + c.Name, Target: "in-process", Model: admission.New(c),
		Start: func(ctx context.Context, _ admission.State) (Driver[admission.State], error) {
			d := &admissionDriver{config: c}
			var err error
			if d.guest, err = newQuietGuest(); err != nil {
				return nil, err
			}
			d.daemon, err = start(ctx, AdmissionOptions{
				Hold: func(p trace.Point) bool { return p.Action == trace.ControlServe }, Slots: int(c.Cap),
				HookBytes: admission.HookCap * admissionUnit, DrainBytes: admission.DrainCap * admissionUnit, BodyBytes: admissionBody,
				HeaderTimeout: headerHours, HookTimeout: hookHours, DrainDeadline: drainHours,
			})
			if err != nil {
				return nil, errors.Join(err, d.guest.Close())
			}
			if err := d.bootstrap(ctx); err != nil {
				return nil, errors.Join(err, d.Close())
			}
			return d, nil
		},
		Project: projectAdmission,
	}
}

const (
	admissionBear = "admission-token"
	admissionBody = 10 * admissionUnit // the cap on control bodies
)

// admissionDriver drives the clients of one daemon.
type admissionDriver struct {
	config admission.Config
	daemon *AdmissionDaemon
	guest  net.Listener // what tunnels lead to
	peers  [admission.MaxConns]*admissionPeer
}

func (d *admissionDriver) bootstrap(ctx context.Context) error {
	p, err := dialAdmission(ctx, d.daemon)
	if err != nil {
		return err
	}
	body := envelope(`{"agent_token":"` + admissionBear + `"}`)
	if err := p.send(fmt.Sprintf("POST %s/run HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", api.HookPrefix, len(body), body)); err != nil {
		return err
	}
	return errors.Join(p.expect(ctx, admission.OK), p.end(ctx))
}

// Do takes one step.
func (d *admissionDriver) Do(ctx context.Context, t Transition[admission.State]) (err error) {
	i := t.Action.Arg[0]
	p, status := d.peers[i], admission.Status(t.Action.Arg[1])
	switch t.Action.ID {
	case admission.Dial:
		status = admission.NoStatus
		if p, err = dialAdmission(ctx, d.daemon); err == nil {
			d.peers[i] = p
		}
	case admission.Request:
		status = admission.Status(t.Action.Arg[2])
		err = d.request(ctx, p, admission.Kind(t.Action.Arg[1]))
	case admission.BodyPiece:
		err = p.send(fmt.Sprintf("%x\r\n%s\r\n", admissionUnit, strings.Repeat("x", admissionUnit)))
	case admission.BodyEnd:
		err = p.send("0\r\n\r\n")
	case admission.Finish:
		p.parked.Release()
		p.parked = nil
	case admission.Deadline:
		err = p.socket.expire()
	case admission.ClientClose:
		status = admission.NoStatus
		p.conn.Close()
		p.left = true
	default:
		err = errors.New("the table has no operation for the action")
	}
	if err != nil {
		return err
	}
	if status != admission.NoStatus {
		if err := p.expect(ctx, status); err != nil {
			return err
		}
	}
	return d.settle(ctx, t)
}

// settle waits for what the model says of each connection.
func (d *admissionDriver) settle(ctx context.Context, t Transition[admission.State]) error {
	for i, p := range d.peers {
		from, to := t.From.Conns[i].Phase, t.To.Conns[i].Phase
		switch {
		case p == nil:
			continue
		case to == admission.Absent:
			if err := p.end(ctx); err != nil {
				return fmt.Errorf("connection %d, which was %s, does not end as it must: %w", i, from, err)
			}
			d.peers[i] = nil
		case to.Open():
			if err := p.holds(ctx, deadlineIn[to]); err != nil {
				return fmt.Errorf("connection %d, which was %s, does not come to %s: %w", i, from, to, err)
			}
		}
	}
	return nil
}

// deadlineIn is the deadline that the daemon holds over a connection.
var deadlineIn = map[admission.Phase]time.Duration{
	admission.Waiting: headerHours, admission.HookBody: hookHours, admission.Draining: drainHours,
}

// request sends a header, and the first bytes of a body where there is one.
func (d *admissionDriver) request(ctx context.Context, p *admissionPeer, k admission.Kind) error {
	bearer := "Authorization: Bearer " + admissionBear + "\r\n"
	chunked := "Transfer-Encoding: chunked\r\n\r\n"
	port := d.guest.Addr().(*net.TCPAddr).Port
	text := map[admission.Kind]string{
		admission.Health:  "GET " + api.PathHealth + " HTTP/1.1\r\nHost: d\r\n\r\n",
		admission.Control: "GET " + api.PathProcs + " HTTP/1.1\r\nHost: d\r\n" + bearer + "\r\n",
		admission.Upgrade: "GET " + api.PathTunnel + "?port=" + strconv.Itoa(port) + " HTTP/1.1\r\nHost: d\r\n" + bearer +
			"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
		admission.Hook:     "POST " + api.HookPrefix + "/ready HTTP/1.1\r\nHost: d\r\n" + chunked,
		admission.Refused:  "POST " + api.PathExecStart + " HTTP/1.1\r\nHost: d\r\n" + chunked,
		admission.Declared: fmt.Sprintf("POST %s HTTP/1.1\r\nHost: d\r\nContent-Length: %d\r\n\r\n", api.PathExecStart, admission.DrainCap*admissionUnit),
		admission.TooLarge: fmt.Sprintf("POST %s HTTP/1.1\r\nHost: d\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", api.PathExecStart, bearer, admissionBody+1),
	}[k]
	if err := p.send(text); err != nil {
		return err
	}
	if k != admission.Control && k != admission.Upgrade {
		return nil // they do not come to the point at which an authorized request is held
	}
	known := map[uint64]bool{}
	for _, other := range d.peers {
		if other != nil && other.parked != nil {
			known[other.parked.Point.Request] = true
		}
	}
	parked, err := d.daemon.Gate.Await(ctx, func(at trace.Point) bool { return !known[at.Request] })
	if err != nil {
		return fmt.Errorf("the request is not served: %w", err)
	}
	if k == admission.Control {
		p.parked = parked
	} else {
		parked.Release()
	}
	return nil
}

// Observe reads what the daemon holds of each connection.
func (d *admissionDriver) Observe(context.Context, Transition[admission.State]) (Observation, error) {
	var o Observation
	d.daemon.Sockets.mu.Lock()
	defer d.daemon.Sockets.mu.Unlock()
	for i, p := range d.peers {
		value := "absent"
		switch {
		case p == nil:
		case !p.socket.admitted:
			value = "backlog"
		default:
			value = opened(p.socket.held)
		}
		o = append(o, model.Field{Name: "conn " + strconv.Itoa(i), Value: value})
	}
	return append(o, model.Field{Name: "open", Value: strconv.Itoa(d.daemon.Sockets.open)}), nil
}

func opened(held time.Duration) string { return fmt.Sprintf("open, deadline %v", held) }

// projectAdmission is what must be observed after a transition.
func projectAdmission(t Transition[admission.State]) Observation {
	var o Observation
	open := 0
	for i, c := range t.To.Conns {
		value := c.Phase.String()
		if c.Phase.Open() {
			value = opened(deadlineIn[c.Phase])
			open++
		}
		o = append(o, model.Field{Name: "conn " + strconv.Itoa(i), Value: value})
	}
	return append(o, model.Field{Name: "open", Value: strconv.Itoa(open)})
}

// Close closes every client, ends the daemon, and checks that the cap held at
// every moment between the steps, too.
func (d *admissionDriver) Close() error {
	d.daemon.Gate.Open()
	for _, p := range d.peers {
		if p != nil {
			p.conn.Close()
		}
	}
	err := errors.Join(d.daemon.Stop(), d.guest.Close())
	if most := d.daemon.Sockets.Most(); err == nil && most > int(d.config.Cap) {
		err = fmt.Errorf("%d connections were open at once, the cap is %d", most, d.config.Cap)
	}
	return err
}

// statusCodes are the wire's statuses of the model's.
var statusCodes = map[admission.Status]int{
	admission.OK: http.StatusOK, admission.Switching: http.StatusSwitchingProtocols, admission.Unauthorized: http.StatusUnauthorized,
	admission.Timeout: http.StatusRequestTimeout, admission.TooMuch: http.StatusRequestEntityTooLarge,
}
