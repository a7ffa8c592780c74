package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"microvms/agentd/api"
)

// keys are the members of a start request beside the id.
type keys map[string]any

// argv is a command that runs as it is.
func argv(args ...string) keys { return keys{"command": args} }

// script is a command of /bin/sh. PATH is set because a child has none.
func script(lines ...string) keys {
	return keys{"command": lines, "shell": true, "env": map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}}
}

func (k keys) with(name string, value any) keys {
	k[name] = value
	return k
}

// body is the start request of id. It can only fail on a value that a case
// wrote wrongly.
func (k keys) body(id string) string {
	k["exec_id"] = id
	b, err := json.Marshal(k)
	if err != nil {
		panic("hostile: internal error: " + err.Error())
	}
	return string(b)
}

// execPath is the path of an exec's route; what is "", "/stream", "/kill", ….
func execPath(id, what string) string { return "/v1/exec/" + url.PathEscape(id) + what }

// start starts a command. The row's end kills what is left of it.
func (p *probe) start(ctx context.Context, id string, k keys) error {
	p.mine(id)
	return p.expect(ctx, "POST", api.PathExecStart, k.body(id), is(200))
}

// mine marks an id as the row's to clean up.
func (p *probe) mine(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.execs = append(p.execs, id)
}

// refusedStart fails unless a start is answered with w and leaves nothing.
func (p *probe) refusedStart(ctx context.Context, k keys, w want) error {
	id := p.id()
	p.mine(id)
	return errors.Join(
		p.expect(ctx, "POST", api.PathExecStart, k.body(id), w),
		p.expect(ctx, "GET", execPath(id, ""), "", refused(api.UnknownExec)),
	)
}

// poll reads GET /v1/exec/{id}.
func (p *probe) poll(ctx context.Context, id string) (*api.PollResponse, error) {
	r, err := p.call(ctx, "GET", execPath(id, ""), "")
	if err != nil {
		return nil, err
	}
	if err := is(200).match(r); err != nil {
		return nil, fmt.Errorf("poll: %w", err)
	}
	var poll api.PollResponse
	if err := json.Unmarshal(r.body, &poll); err != nil {
		return nil, fmt.Errorf("cannot read a poll: %w", err)
	}
	return &poll, nil
}

// kill kills an exec and returns what the daemon says of it.
func (p *probe) kill(ctx context.Context, id string) (killed bool, err error) {
	r, err := p.call(ctx, "POST", execPath(id, "/kill"), "")
	if err != nil {
		return false, err
	}
	if err := is(200).match(r); err != nil {
		return false, fmt.Errorf("kill: %w", err)
	}
	var k api.KillResponse
	err = json.Unmarshal(r.body, &k)
	return k.Killed, err
}

// group returns an exec's line of GET /v1/procs.
func (p *probe) group(ctx context.Context, id string) (*api.ProcGroup, error) {
	r, err := p.call(ctx, "GET", api.PathProcs, "")
	if err != nil {
		return nil, err
	}
	if err := is(200).match(r); err != nil {
		return nil, fmt.Errorf("procs: %w", err)
	}
	var procs api.ProcsResponse
	if err := json.Unmarshal(r.body, &procs); err != nil {
		return nil, fmt.Errorf("cannot read procs: %w", err)
	}
	i := slices.IndexFunc(procs.Procs, func(g api.ProcGroup) bool { return g.ExecID == id })
	if i < 0 {
		return nil, fmt.Errorf("exec %q is not listed", id)
	}
	return &procs.Procs[i], nil
}

// drop acks an exec that has ended and forgets it.
func (p *probe) drop(ctx context.Context, id string) error {
	if err := p.expect(ctx, "POST", execPath(id, "/ack"), "", is(200)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.execs = slices.DeleteFunc(p.execs, func(e string) bool { return e == id })
	return nil
}

// cleanUp ends what the row's cases left running. What cannot be ended shows in
// the leak check.
func (p *probe) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.Knobs.limit())
	defer cancel()
	p.mu.Lock()
	execs := slices.Clone(p.execs)
	p.mu.Unlock()
	for _, id := range execs {
		if len(id) == 0 || len(id) > 4096 {
			continue // cannot be asked for
		}
		if _, err := p.kill(ctx, id); err != nil {
			continue // refused, as it should be
		}
		if _, err := p.follow(ctx, id, 0); err == nil {
			_ = p.drop(ctx, id) // acked by the case already, or it is
		}
	}
}

// transcript is a stream as a reader saw it.
type transcript struct {
	out, err []byte // the first keepBytes of each stream; bytes in a gap are missing
	outBytes uint64 // received
	errBytes uint64
	gapBytes uint64
	exit     *api.ExitEvent
}

// keepBytes bounds what a transcript keeps of each stream.
const keepBytes = 4 << 20

// follow reads an exec's stream from offset to its exit event and judges that
// its events tile the offsets (OUT-6).
func (p *probe) follow(ctx context.Context, id string, offset uint64) (*transcript, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", p.URL+execPath(id, "/stream")+"?offset="+strconv.FormatUint(offset, 10), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot attach: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return nil, fmt.Errorf("attach answered %d", resp.StatusCode)
	}
	return readStream(resp.Body, offset)
}

// readStream reads events up to the exit.
func readStream(body io.Reader, cursor uint64) (*transcript, error) {
	t := &transcript{}
	lines := bufio.NewReaderSize(body, 128<<10)
	event := ""
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return t, fmt.Errorf("the stream ended at offset %d without an exit event: %w", cursor, err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ": ")
		switch {
		case name == "event":
			event = value
		case name != "data":
		case event == api.EventExit:
			t.exit = &api.ExitEvent{}
			if err := json.Unmarshal([]byte(value), t.exit); err != nil {
				return t, fmt.Errorf("cannot read an exit event: %w", err)
			}
			if t.exit.Offset > cursor || (t.exit.Offset < cursor && t.outBytes+t.errBytes+t.gapBytes > 0) {
				return t, fmt.Errorf("the exit is at offset %d, the reader at %d", t.exit.Offset, cursor)
			}
			return t, nil
		default:
			if cursor, err = t.take(event, value, cursor); err != nil {
				return t, err
			}
		}
	}
}

// take enters an output or a gap.
func (t *transcript) take(event, data string, cursor uint64) (uint64, error) {
	switch event {
	case api.EventOutput:
		var o api.OutputEvent
		if err := json.Unmarshal([]byte(data), &o); err != nil {
			return cursor, fmt.Errorf("cannot read an output event: %w", err)
		}
		if o.Offset != cursor || len(o.Output) == 0 {
			return cursor, fmt.Errorf("%d bytes at offset %d do not continue at %d", len(o.Output), o.Offset, cursor)
		}
		kept, count := &t.out, &t.outBytes
		if o.Stream == api.StreamStderr {
			kept, count = &t.err, &t.errBytes
		}
		*count += uint64(len(o.Output))
		*kept = append(*kept, o.Output[:min(len(o.Output), keepBytes-len(*kept))]...)
		return cursor + uint64(len(o.Output)), nil
	case api.EventGap:
		var g api.GapEvent
		if err := json.Unmarshal([]byte(data), &g); err != nil {
			return cursor, fmt.Errorf("cannot read a gap event: %w", err)
		}
		if g.From != cursor || g.To <= g.From {
			return cursor, fmt.Errorf("the gap [%d, %d) does not continue at %d", g.From, g.To, cursor)
		}
		t.gapBytes += g.To - g.From
		return g.To, nil
	}
	return cursor, fmt.Errorf("unknown event %q", event)
}

// ended follows an exec to its end and returns its poll.
func (p *probe) ended(ctx context.Context, id string) (*api.PollResponse, error) {
	if _, err := p.follow(ctx, id, 0); err != nil {
		return nil, err
	}
	poll, err := p.poll(ctx, id)
	if err == nil && poll.Outcome == nil {
		err = fmt.Errorf("exec %q has ended and polls without an outcome", id)
	}
	return poll, err
}

// output waits until the exec has written a whole line and returns the first.
func (p *probe) output(ctx context.Context, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", p.URL+execPath(id, "/stream"), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	resp, err := p.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("cannot attach: %w", err)
	}
	defer resp.Body.Close()
	var text []byte
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 128<<10)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var o api.OutputEvent
		if !ok || json.Unmarshal([]byte(data), &o) != nil {
			continue
		}
		text = append(text, o.Output...)
		if line, _, whole := strings.Cut(string(text), "\n"); whole {
			return line, nil
		}
	}
	return "", fmt.Errorf("the exec wrote no line: %q", text)
}

// events reads the events of a stream whose header was read.
func (c *peer) events(offset uint64) (*transcript, error) {
	return readStream(httputil.NewChunkedReader(c.br), offset)
}
