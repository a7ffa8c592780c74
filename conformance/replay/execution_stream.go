package replay

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"microvms/agentd/api"
)

// frame is one event of a stream as it came over the wire.
type frame struct {
	kind   string // "output", "gap" or "exit"
	from   int    // of exit: the total
	to     int
	stream string
	data   string
}

// stream is one attached reader. Its frames are read by a goroutine of its own,
// so that a driver can wait for the next, or look whether there is one.
type stream struct {
	cut    context.CancelFunc
	frames chan frame
	done   chan struct{} // closed when the body has ended

	mu  sync.Mutex
	err error // of the body; nil when it ended by itself
}

// attach opens a stream at an offset.
func (s *execSystem) attach(exec string, offset int) (*stream, error) {
	ctx, cut := context.WithCancel(s.ctx)
	path := execRoute(api.PathExecStream, exec) + "?offset=" + strconv.Itoa(offset)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.daemon.URL+path, nil)
	if err != nil {
		cut()
		return nil, err
	}
	req.Header.Set("Authorization", s.bearer)
	resp, err := s.wire.once.Do(req)
	if err != nil {
		cut()
		return nil, err
	}
	if media := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || media != api.MediaSSE {
		resp.Body.Close()
		cut()
		return nil, fmt.Errorf("a stream was answered %d with %q", resp.StatusCode, media)
	}
	r := &stream{cut: cut, frames: make(chan frame, 64), done: make(chan struct{})}
	s.requests.Go(func() {
		defer close(r.done)
		defer resp.Body.Close()
		err := readFrames(resp.Body, func(f frame) { r.frames <- f })
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = err
	})
	return r, nil
}

// readFrames reads frames to the end of the body, and holds them to their form.
func readFrames(body io.Reader, take func(f frame)) error {
	lines := bufio.NewReader(body)
	for {
		event, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) && event == "" {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if empty, err := lines.ReadString('\n'); err != nil || empty != "\n" {
			return fmt.Errorf("a frame does not end with an empty line: %q (%v)", empty, err)
		}
		kind, ok := strings.CutPrefix(strings.TrimSuffix(event, "\n"), "event: ")
		payload, ok2 := strings.CutPrefix(strings.TrimSuffix(data, "\n"), "data: ")
		if !ok || !ok2 {
			return fmt.Errorf("not a frame: %q %q", event, data)
		}
		f, err := parseFrame(kind, payload)
		if err != nil {
			return err
		}
		take(f)
	}
}

func parseFrame(kind, payload string) (frame, error) {
	var p struct {
		Offset, From, To *int
		Stream, Output   string
	}
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		return frame{}, fmt.Errorf("cannot read the data of %s: %w", kind, err)
	}
	f := frame{kind: kind, stream: p.Stream}
	switch {
	case kind == "output" && p.Offset != nil:
		data, err := base64.StdEncoding.DecodeString(p.Output)
		if err != nil {
			return frame{}, fmt.Errorf("cannot decode an output event: %w", err)
		}
		f.from, f.to, f.data = *p.Offset, *p.Offset+len(data), string(data)
	case kind == "gap" && p.From != nil && p.To != nil:
		f.from, f.to = *p.From, *p.To
	case kind == "exit" && p.Offset != nil:
		f.from, f.to = *p.Offset, *p.Offset
	default:
		return frame{}, fmt.Errorf("event %q lacks its fields", kind)
	}
	return f, nil
}

// next waits for the next frame; ok is false when the body ended instead.
func (r *stream) next(ctx context.Context) (f frame, ok bool, err error) {
	select {
	case f = <-r.frames:
		return f, true, nil
	default:
	}
	select {
	case f = <-r.frames:
		return f, true, nil
	case <-r.done:
		select {
		case f = <-r.frames:
			return f, true, nil
		default:
			return frame{}, false, r.ended()
		}
	case <-ctx.Done():
		return frame{}, false, fmt.Errorf("no event came: %w", ctx.Err())
	}
}

func (r *stream) ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// leave cuts the connection and waits until the client has given up.
func (r *stream) leave(ctx context.Context) error {
	r.cut()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the stream did not end when it was cut: %w", ctx.Err())
	}
}
