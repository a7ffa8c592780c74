package histories

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"microvms/agentd/api"
)

// record lets all clients of the plan act at once on the daemon at addr and returns what they saw. It ends with one
// client asking for the end of every exec and its result, so that nothing is left behind and lost output shows.
// The error is about the run itself: a daemon that hangs or breaks a connection by itself.
func record(ctx context.Context, p plan, party client, addr, name string, seed uint64) (*History, error) {
	start := time.Now()
	clock := func() int64 { return int64(time.Since(start)) }
	var (
		mu  sync.Mutex
		all []Operation
		bad error
		wg  sync.WaitGroup
	)
	ready := make(chan struct{})
	for _, ops := range p.clients {
		wg.Go(func() {
			c := party.at(addr, clock)
			defer c.wire.close()
			<-ready
			done, err := c.run(ctx, ops)
			mu.Lock()
			defer mu.Unlock()
			all, bad = append(all, done...), errors.Join(bad, err)
		})
	}
	close(ready)
	wg.Wait()
	if bad != nil {
		return nil, fmt.Errorf("history %q: %w", name, bad)
	}
	c := party.at(addr, clock)
	defer c.wire.close()
	ending := closing(all)
	if p.closing != nil {
		ending = p.closing
	}
	last, err := c.run(ctx, ending)
	if err != nil {
		return nil, fmt.Errorf("history %q, at its end: %w", name, err)
	}
	all = append(all, last...)
	sort.SliceStable(all, func(i, j int) bool { return all[i].Call < all[j].Call })
	return &History{Name: name, Seed: seed, Ring: p.ring, Greet: p.greet, Scope: p.scope, Operations: all}, nil
}

// closing asks, for every exec that was named, for its end and then its result, with every token that was used.
func closing(all []Operation) []Operation {
	execs, tokens := map[string]bool{}, map[string]bool{}
	for _, o := range all {
		if o.Exec != "" {
			execs[o.Exec] = true
		}
		if o.Token != "" {
			tokens[o.Token] = true
		}
	}
	if len(all) > 0 && all[0].Root != "" {
		return closingFiles(all)
	}
	var ops []Operation
	for _, k := range []Kind{Kill, Poll, Ack} {
		for _, x := range keys(execs) {
			for _, t := range keys(tokens) {
				ops = append(ops, Operation{Client: Clients, Kind: k, Exec: x, Token: t})
			}
		}
	}
	return ops
}

func keys(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// client performs operations one after another.
type client struct {
	wire    wire
	clock   func() int64
	bearers map[string]string // the real token behind a party's name, where it is not the name itself
	launch  string            // stands in for the launch environment of a daemon that was bootstrapped by others
	tunnels *tunnels          // of scope ByTunnel
}

// at returns a client of the same party with a connection of its own.
func (c client) at(addr string, clock func() int64) *client {
	c.wire, c.clock = wire{addr: addr}, clock
	return &c
}

func (c *client) bearer(o *Operation) string {
	if t, ok := c.bearers[o.Token]; ok {
		return t
	}
	return o.Token
}

func (c *client) run(ctx context.Context, ops []Operation) ([]Operation, error) {
	var done []Operation
	for _, op := range ops {
		if c.tunnels != nil && !c.tunnels.ready(ctx, &op) {
			continue
		}
		op.Call = c.clock()
		answer, err := c.perform(ctx, &op)
		op.Return = c.clock()
		switch {
		case errors.Is(err, errCut):
			if op.Cut != DropAnswer {
				op.Return = -1
			}
		case err != nil:
			return done, fmt.Errorf("client %d, %s: %w", op.Client, op.Label(), err)
		}
		op.Answer = answer
		done = append(done, op)
	}
	return done, nil
}

func (c *client) perform(ctx context.Context, op *Operation) (*Answer, error) {
	if op.Kind == Stream {
		return c.stream(ctx, op)
	}
	if c.tunnels != nil {
		return c.tunnels.perform(ctx, op)
	}
	method, path, body := op.request(c.launch)
	if op.Root != "" {
		var err error
		if method, path, body, err = op.fileRequest(); err != nil {
			return nil, err
		}
	}
	token := c.bearer(op)
	if op.Kind == Hook {
		token = ""
	}
	r, err := c.wire.send(ctx, method, path, token, body, op.Cut)
	if (op.Kind == Get || op.Kind == TarDown) && errors.Is(err, errShort) {
		return &Answer{Status: http.StatusOK, Broken: true}, nil // judged: a file may shrink while it is sent
	}
	if err != nil {
		return nil, err
	}
	a := &Answer{Status: r.status}
	if op.Root != "" {
		return a, a.readFiles(op, r.body)
	}
	if err := a.read(op.Kind, r.body); err != nil {
		return nil, fmt.Errorf("cannot read the answer with status %d: %w", r.status, err)
	}
	return a, nil
}

// request returns the operation as wire version 1 has it (wire facts, sections 4, 6, 7 and 8).
func (o *Operation) request(launch string) (method, path string, body []byte) {
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			panic("histories: internal error: cannot encode a request: " + err.Error())
		}
		return b
	}
	exec := "/v1/exec/" + o.Exec
	switch o.Kind {
	case Hook:
		payload := string(encode(map[string]any{api.PayloadToken: o.Token, api.PayloadEnv: map[string]string{"LAUNCH": strconv.Itoa(o.Env)}}))
		return http.MethodPost, api.HookPrefix + "/" + api.HookRun, encode(api.RunHookEnvelope{RunHookPayload: &payload})
	case Start:
		env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}
		if launch != "" {
			env["LAUNCH"] = launch
		}
		start := api.StartRequest{ExecID: o.Exec, Command: o.Child.argv(), Stdin: o.Child == Echo, Env: env}
		switch {
		case o.Child == Nobody, o.User == UnknownUser:
			start.User = api.Name(unknownUser)
		case o.User == OwnUser:
			start.User = api.Name(ownUser())
		}
		return http.MethodPost, api.PathExecStart, encode(start)
	case Poll:
		return http.MethodGet, exec, nil
	case Ack:
		return http.MethodPost, exec + "/ack", nil
	case Kill:
		return http.MethodPost, exec + "/kill", nil
	case Stdin:
		data, eof := base64.StdEncoding.EncodeToString([]byte(o.Text+"\n")), api.SignalEOF
		if o.EOF {
			return http.MethodPost, exec + "/stdin", encode(api.StdinRequest{Signal: &eof})
		}
		return http.MethodPost, exec + "/stdin", encode(api.StdinRequest{DataB64: &data})
	case Procs:
		return http.MethodGet, api.PathProcs, nil
	}
	return http.MethodGet, api.PathHealth, nil
}

// read decodes the parts of a body that are judged.
func (a *Answer) read(k Kind, body []byte) error {
	if a.Status >= 400 {
		var e api.Error
		if len(body) > 0 && k != Hook {
			if err := json.Unmarshal(body, &e); err != nil {
				return err
			}
		}
		a.Code = string(e.Code)
		return nil
	}
	switch k {
	case Start:
		var r api.StartResponse
		err := json.Unmarshal(body, &r)
		a.Phase = string(r.Phase)
		return err
	case Poll, Ack:
		var r api.PollResponse
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		a.Phase = string(r.Phase)
		if r.Outcome != nil {
			a.Outcome, a.ExitCode, a.Signal, a.TimedOut, a.Stdout = true, r.ExitCode, r.Signal, r.TimedOut, r.Stdout
		}
	case Kill:
		var r api.KillResponse
		err := json.Unmarshal(body, &r)
		a.Killed = r.Killed
		return err
	case Stdin:
		var r api.StdinResponse
		err := json.Unmarshal(body, &r)
		a.Written = int(r.Written)
		return err
	case Procs:
		var r api.ProcsResponse
		err := json.Unmarshal(body, &r)
		for _, g := range r.Procs {
			a.IDs = append(a.IDs, g.ExecID)
		}
		sort.Strings(a.IDs)
		return err
	case Health:
		var r api.Health
		err := json.Unmarshal(body, &r)
		a.Bootstrapped, a.Busy, a.Execs, a.Hooks = r.Bootstrapped, r.Busy, int(r.Execs), len(r.Hooks)+int(r.HooksDropped)
		return err
	}
	return nil
}

// silence ends a stream operation that gets nothing: it then stands for a reader that left. It bounds an operation,
// it judges nothing.
const silence = 5 * time.Millisecond

// stream reads the output from an offset on a connection of its own, until it has Take bytes, the exit event, or a
// moment of silence. What it got must be the exec's output from that offset.
func (c *client) stream(ctx context.Context, op *Operation) (*Answer, error) {
	w := wire{addr: c.wire.addr}
	if err := w.dial(ctx); err != nil {
		return nil, err
	}
	defer w.close()
	path := "/v1/exec/" + op.Exec + "/stream?offset=" + strconv.FormatUint(op.Offset, 10)
	w.encode(http.MethodGet, path, c.bearer(op), nil)
	if _, err := w.conn.Write(w.buf.Bytes()); err != nil {
		return nil, fmt.Errorf("cannot open a stream: %w", err)
	}
	if err := w.conn.SetReadDeadline(time.Now().Add(answerLimit)); err != nil {
		return nil, fmt.Errorf("cannot set a deadline: %w", err)
	}
	resp, err := http.ReadResponse(w.in, &http.Request{Method: http.MethodGet})
	if err != nil {
		return nil, fmt.Errorf("cannot open a stream: %w", err)
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode}
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, fmt.Errorf("cannot read a refusal: %w", err)
		}
		return a, a.read(Stream, body)
	}
	return a, a.events(w.conn, bufio.NewReader(resp.Body), op)
}

func (a *Answer) events(conn net.Conn, in *bufio.Reader, op *Operation) error {
	next, gap := op.Offset, false
	for uint64(len(a.Bytes)) < op.Take && !a.Exited {
		if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return fmt.Errorf("cannot set a deadline: %w", err)
		}
		name, data, err := frame(in)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the stream ended without its exit event: %w", err)
		}
		switch name {
		case api.EventOutput:
			var e api.OutputEvent
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("cannot read an output event: %w", err)
			}
			if e.Offset != next {
				return fmt.Errorf("an output event starts at %d, and %d was next", e.Offset, next)
			}
			next += uint64(len(e.Output))
			a.Bytes += string(e.Output)
		case api.EventExit:
			var e api.ExitEvent
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("cannot read an exit event: %w", err)
			}
			a.Exited, a.Total, a.ExitCode, a.Signal, a.TimedOut = true, e.Offset, e.ExitCode, e.Signal, e.TimedOut
		case api.EventGap:
			var e api.GapEvent
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("cannot read a gap event: %w", err)
			}
			if e.From != next || e.To <= e.From || gap {
				return fmt.Errorf("a gap from %d to %d came, and %d was next", e.From, e.To, next)
			}
			if a.Bytes != "" {
				return nil // it lagged behind what it had: this reader leaves here
			}
			next, gap, a.Lost = e.To, true, e.To
		default:
			return fmt.Errorf("an event %q came", name)
		}
	}
	return nil
}

// frame reads one event, exactly as the wire has it: "event: <name>\ndata: <json>\n\n" (wire facts, section 7.3).
func frame(in *bufio.Reader) (name string, data []byte, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", nil, err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" && name != "":
			return name, data, nil
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = []byte(line[len("data: "):])
		case line != "" && line != ":":
			return "", nil, fmt.Errorf("a line of a stream is no event, data or comment: %q", line)
		}
	}
}
