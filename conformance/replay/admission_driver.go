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
	uploadHours = 4 * time.Hour
	answerHours = 5 * time.Hour
)

// AdmissionOptions are what the driver of the admission model asks of the
// daemon that is started for it.
type AdmissionOptions struct {
	Hold                             func(p trace.Point) bool
	Slots                            int
	Grace                            time.Duration // by the stepped clock
	HookBytes, DrainBytes, BodyBytes int64
	// By the sockets, which hold them.
	HeaderTimeout, HookTimeout, DrainTimeout, UploadTimeout, AnswerTimeout time.Duration
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
//	Arrive       send a header that the daemon does not get to read
//	Request      send a header, or let one be read, and read the answer that the model says
//	BodyPiece    send a chunk, likewise
//	BodyEnd      send the last chunk; the handler of a body that is read stands before it is told of the end
//	ReadAnswer   let the answer be written, and read it
//	Finish       let the handler go that stands before ControlServe or BodyEnd, and read the answer
//	Grace        move the clock to where the grace of the connection passes
//	Deadline     let the deadline pass that the daemon holds over the connection
//	ClientClose  close
//
// After each step it waits until every connection that the model ends has seen
// its end, until the others have the deadlines that they must have, and until a
// newcomer that is not admitted waits.
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
				Hold:      func(p trace.Point) bool { return p.Action == trace.ControlServe || p.Action == trace.BodyEnd },
				Slots:     int(c.Cap),
				HookBytes: admission.HookCap * admissionUnit, DrainBytes: admission.DrainCap * admissionUnit, BodyBytes: admissionBody,
				Grace: admissionGrace, HeaderTimeout: headerHours, HookTimeout: hookHours, DrainTimeout: drainHours,
				UploadTimeout: uploadHours, AnswerTimeout: answerHours,
			})
			if err != nil {
				return nil, errors.Join(err, d.guest.Close())
			}
			d.graces.clock = d.daemon.Clock
			if err := d.bootstrap(ctx); err != nil {
				return nil, errors.Join(err, d.Close())
			}
			return d, nil
		},
		Project:  projectAdmission,
		Parallel: 4, // a refused body costs half a second, in which nothing is done
	}
}

const (
	admissionBear = "admission-token"
	admissionBody = 1 << 20 // the cap on control bodies
)

// admissionDriver drives the clients of one daemon.
type admissionDriver struct {
	config admission.Config
	daemon *AdmissionDaemon
	guest  net.Listener // what tunnels lead to
	graces graces
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
	parked, err := d.next(ctx)
	if err != nil {
		return err
	}
	parked.Release()
	return errors.Join(p.expect(ctx, admission.OK, true), p.end(ctx))
}

// Do takes one step.
func (d *admissionDriver) Do(ctx context.Context, t Transition[admission.State]) (err error) {
	i := t.Action.Arg[0]
	events := uint64(len(d.daemon.Recorder.Events()))
	d.daemon.Sockets.mu.Lock()
	for _, p := range d.peers {
		if p != nil {
			p.spared = p.socket.spared
		}
	}
	d.daemon.Sockets.mu.Unlock()
	if t.Action.ID == admission.Grace {
		err = d.graces.ripen(ctx, t.From)
	} else {
		d.graces.pass(t.From)
		err = d.act(ctx, t)
	}
	if err != nil {
		return err
	}
	if status := statusOf(t.Action); status != admission.NoStatus {
		to := t.To.Conns[i]
		ends := to.Ending || !to.Phase.Open()
		if err := d.peers[i].expect(ctx, status, ends); err != nil {
			return err
		}
	}
	if t.To.Conns[i].Phase == admission.Backlog && t.Action.ID == admission.Dial {
		if _, err := d.daemon.Recorder.Await(ctx, events, func(e trace.Event) bool { return e.Action == trace.ConnWait }); err != nil {
			return fmt.Errorf("the newcomer does not wait: %w", err)
		}
	}
	if err := d.settle(ctx, t); err != nil {
		return err
	}
	return d.graces.settle(ctx, t)
}

// statusOf is what the client is answered at once in a step.
func statusOf(a model.Action) admission.Status {
	switch a.ID {
	case admission.Request:
		return admission.Status(a.Arg[2])
	case admission.BodyPiece, admission.BodyEnd, admission.ReadAnswer, admission.Finish, admission.Deadline:
		return admission.Status(a.Arg[1])
	}
	return admission.NoStatus
}

// act performs the operation of a step.
func (d *admissionDriver) act(ctx context.Context, t Transition[admission.State]) (err error) {
	i := t.Action.Arg[0]
	p := d.peers[i]
	switch t.Action.ID {
	case admission.Dial:
		d.peers[i], err = dialAdmission(ctx, d.daemon)
	case admission.Arrive:
		err = p.arrive(ctx, d.header(admission.Control))
	case admission.Request:
		err = d.request(ctx, p, admission.Kind(t.Action.Arg[1]), t.From.Conns[i].Phase == admission.Arrived)
	case admission.BodyPiece:
		err = p.send(fmt.Sprintf("%x\r\n%s\r\n", admissionUnit, strings.Repeat("x", admissionUnit)))
	case admission.BodyEnd:
		if err = p.send("0\r\n\r\n"); err == nil && t.To.Conns[i].Phase.Complete() {
			p.parked, err = d.next(ctx)
		}
	case admission.ReadAnswer:
		p.socket.stall(false)
	case admission.Finish:
		p.parked.Release()
		p.parked = nil
	case admission.Deadline:
		err = p.socket.expire()
	case admission.ClientClose:
		p.conn.Close()
		p.left = true
		p.socket.stall(false) // what it would not read goes nowhere
	default:
		err = errors.New("the table has no operation for the action")
	}
	return err
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
		case to.Open() && !p.left:
			if asked := uint8(i) + 1; t.To.Asked == asked && t.From.Asked != asked {
				_, err := d.daemon.Sockets.await(ctx, p.conn.LocalAddr().String(), func(k *socket) bool { return k.spared > p.spared })
				if err != nil {
					return fmt.Errorf("connection %d, whose request lies in the socket, does not go on: %w", i, err)
				}
			}
			if err := p.holds(ctx, to); err != nil {
				return fmt.Errorf("connection %d, which was %s, does not come to %s: %w", i, from, to, err)
			}
		}
	}
	return nil
}

// deadlinesIn are the deadlines that the daemon holds over a connection.
var deadlinesIn = func() map[admission.Phase]string {
	out := map[admission.Phase]string{}
	for p, held := range map[admission.Phase]time.Duration{
		admission.Waiting: headerHours, admission.Arrived: headerHours, admission.HookBody: hookHours, admission.Draining: drainHours,
		admission.Hooked: 0, admission.Uploaded: 0, admission.Uploading: uploadHours, admission.Serving: 0, admission.Gone: 0, admission.Tunnel: 0,
	} {
		out[p] = fmt.Sprintf("read deadline %v", held)
	}
	out[admission.Sending] = fmt.Sprintf("write deadline %v", answerHours)
	return out
}()

// header is the header section of a request.
func (d *admissionDriver) header(k admission.Kind) string {
	bearer := "Authorization: Bearer " + admissionBear + "\r\n"
	chunked := "Transfer-Encoding: chunked\r\n\r\n"
	typed := "Content-Type: application/json\r\n"
	port := d.guest.Addr().(*net.TCPAddr).Port
	post := "POST " + api.PathExecStart + " HTTP/1.1\r\nHost: d\r\n"
	health := "GET " + api.PathHealth + " HTTP/1.1\r\nHost: d\r\n\r\n"
	return map[admission.Kind]string{
		admission.Health:  health,
		admission.Ignored: health,
		admission.Control: "GET " + api.PathProcs + " HTTP/1.1\r\nHost: d\r\n" + bearer + "\r\n",
		admission.Upgrade: "GET " + api.PathTunnel + "?port=" + strconv.Itoa(port) + " HTTP/1.1\r\nHost: d\r\n" + bearer +
			"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
		admission.Hook:     "POST " + api.HookPrefix + "/ready HTTP/1.1\r\nHost: d\r\n" + chunked,
		admission.Upload:   post + bearer + typed + chunked,
		admission.Refused:  post + chunked,
		admission.Declared: post + fmt.Sprintf("Content-Length: %d\r\n\r\n", admission.DrainCap*admissionUnit),
		admission.TooLarge: post + bearer + typed + fmt.Sprintf("Content-Length: %d\r\n\r\n", admissionBody+1),
	}[k]
}

// request sends a header, unless it lies in the socket already, and takes the
// request to where the model leaves it.
func (d *admissionDriver) request(ctx context.Context, p *admissionPeer, k admission.Kind, arrived bool) error {
	if k == admission.Ignored {
		p.socket.stall(true)
	}
	var err error
	if arrived {
		err = p.socket.hear()
	} else {
		err = p.send(d.header(k))
	}
	if err != nil {
		return err
	}
	if k != admission.Control && k != admission.Upgrade && k != admission.Upload {
		return nil // they do not come to the point at which an authorized request is held
	}
	parked, err := d.next(ctx)
	if err != nil {
		return err
	}
	if k == admission.Control {
		p.parked = parked
	} else {
		parked.Release()
	}
	return nil
}

// next returns the request that stands at a point and is no connection's yet.
func (d *admissionDriver) next(ctx context.Context) (*Parked, error) {
	known := map[uint64]bool{}
	for _, other := range d.peers {
		if other != nil && other.parked != nil {
			known[other.parked.Point.Request] = true
		}
	}
	parked, err := d.daemon.Gate.Await(ctx, func(at trace.Point) bool { return !known[at.Request] })
	if err != nil {
		return nil, fmt.Errorf("the request is not served: %w", err)
	}
	return parked, nil
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
			value = "open, " + p.socket.deadlines()
		}
		o = append(o, model.Field{Name: "conn " + strconv.Itoa(i), Value: value})
	}
	return append(o, model.Field{Name: "open", Value: strconv.Itoa(d.daemon.Sockets.open)}), nil
}

// projectAdmission is what must be observed after a transition.
func projectAdmission(t Transition[admission.State]) Observation {
	var o Observation
	open := 0
	for i, c := range t.To.Conns {
		value := c.Phase.String()
		if c.Phase.Open() {
			value = "open, " + deadlinesIn[c.Phase]
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
			p.socket.stall(false)
			_ = p.socket.hear() // a deadline is refused only by what is closed, and that is not read any more
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
	admission.OK: http.StatusOK, admission.Switching: http.StatusSwitchingProtocols,
	admission.Malformed: http.StatusBadRequest, admission.Unauthorized: http.StatusUnauthorized,
	admission.Timeout: http.StatusRequestTimeout, admission.TooMuch: http.StatusRequestEntityTooLarge,
}
