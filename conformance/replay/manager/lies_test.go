package manager

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/conformance/replay"
	"microvms/model/manager"
)

// lie is a fault that a proxy before the manager plants.
type lie struct {
	name string
	// message changes what the manager sends: none, one or more messages.
	message func(l *liar, h msp.Header, payload []byte) [][]byte
	text    func(answer string) string // of HTTP answers
	words   string                     // of the failure
}

// liar is the proxy of one manager.
type liar struct {
	lie
	listener net.Listener
	to       *Manager

	mu    sync.Mutex
	held  []byte // a message that waits for another
	conns []net.Conn
	wg    sync.WaitGroup
}

// lying returns a starter whose managers stand behind a liar.
func lying(honest Starter, what lie) Starter {
	return func(ctx context.Context, o Options) (*Manager, error) {
		m, err := honest(ctx, o)
		if err != nil {
			return nil, err
		}
		l := &liar{lie: what, to: &Manager{Network: m.Network, Address: m.Address}}
		if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		l.wg.Go(l.serve)
		wait := m.Wait
		m.Network, m.Address = "tcp", l.listener.Addr().String()
		m.Wait = func(ctx context.Context) error {
			l.close()
			return wait(ctx)
		}
		return m, nil
	}
}

func (l *liar) close() {
	l.listener.Close()
	l.mu.Lock()
	for _, c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *liar) serve() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial(l.to.Network, l.to.Address)
		if err != nil {
			client.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, client, far)
		l.mu.Unlock()
		l.wg.Go(func() {
			io.Copy(far, client)
			far.Close()
		})
		l.wg.Go(func() {
			l.answers(client, bufio.NewReader(far))
			client.Close()
		})
	}
}

// answers passes on what the manager says: HTTP answers with a text, and after an
// upgrade one message a frame.
func (l *liar) answers(to io.Writer, from *bufio.Reader) {
	for {
		head, length, upgraded, err := readHead(from)
		if err != nil {
			return
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		text := string(body)
		if l.text != nil {
			text = l.text(text) // of the same length
		}
		io.WriteString(to, head+text)
		if upgraded {
			break
		}
	}
	for {
		first, payload, err := readFrame(from)
		if err != nil {
			return
		}
		frames := [][]byte{payload}
		if h, rest, err := msp.ParseHeader(payload); err == nil && first == 0x82 && l.message != nil {
			l.mu.Lock()
			frames = l.message(l, h, rest)
			l.mu.Unlock()
		}
		for _, f := range frames {
			if _, err := to.Write(frame(first, f)); err != nil {
				return
			}
		}
	}
}

func readHead(r *bufio.Reader) (head string, length int, upgraded bool, err error) {
	for {
		line, err := r.ReadString('\n')
		head += line
		upgraded = upgraded || strings.HasPrefix(line, "HTTP/1.1 101 ")
		_, _ = fmt.Sscanf(strings.ToLower(line), "content-length: %d", &length)
		if err != nil || line == "\r\n" {
			return head, length, upgraded, err
		}
	}
}

// readFrame reads one frame of a server: without a mask (RFC 6455, section 5.2).
func readFrame(r *bufio.Reader) (first byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1])
	long := make([]byte, map[uint64]int{126: 2, 127: 8}[size])
	if _, err := io.ReadFull(r, long); err != nil {
		return 0, nil, err
	}
	if len(long) > 0 {
		size = binary.BigEndian.Uint64(append(make([]byte, 8-len(long)), long...))
	}
	if size > 1<<20 {
		return 0, nil, errors.New("a frame that is too long")
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(r, payload)
	return head[0], payload, err
}

func frame(first byte, payload []byte) []byte {
	if len(payload) < 126 {
		return append([]byte{first, byte(len(payload))}, payload...)
	}
	return append(binary.BigEndian.AppendUint16([]byte{first, 126}, uint16(len(payload))), payload...)
}

// whole is a message as it was.
func whole(h msp.Header, payload []byte) []byte { return append(h.Append(nil), payload...) }

// events is a lie about events of one kind.
func events(kind string, f func(m []byte, ev *msp.Event) [][]byte) func(*liar, msp.Header, []byte) [][]byte {
	return func(_ *liar, h msp.Header, payload []byte) [][]byte {
		ev := new(msp.Event)
		if h.Method != msp.MethodEvent || calldata.Unmarshal(payload, ev) != nil || ev.Kind() != kind {
			return [][]byte{whole(h, payload)}
		}
		return f(whole(h, payload), ev)
	}
}

func again(h msp.Header, v any) [][]byte {
	b, err := msp.Message(h, v)
	if err != nil {
		panic(err)
	}
	return [][]byte{b}
}

// replies is a lie about replies to one method.
func replies[T any](method msp.Method, f func(v *T)) func(*liar, msp.Header, []byte) [][]byte {
	return func(_ *liar, h msp.Header, payload []byte) [][]byte {
		v := new(T)
		if h.Method != method || calldata.Unmarshal(payload, v) != nil {
			return [][]byte{whole(h, payload)}
		}
		f(v)
		return again(h, v)
	}
}

var lies = []lie{
	{name: "terminal-twice", words: "ended(1, cancelled) ended(1, cancelled)",
		message: events("finished", func(m []byte, _ *msp.Event) [][]byte { return [][]byte{m, m} })},
	{name: "terminal-lost", words: "conn1 is up run-reply(1)",
		message: events("failed_to_start", func([]byte, *msp.Event) [][]byte { return nil })},
	{name: "started-lost", words: "started(1)",
		message: events("started", func([]byte, *msp.Event) [][]byte { return nil })},
	{name: "other-cause", words: "ended(1, deadline)",
		message: events("finished", func(_ []byte, ev *msp.Event) [][]byte {
			ev.Finished.Cause = msp.Deadline
			return again(msp.Header{Method: msp.MethodEvent}, ev)
		})},
	{name: "other-token", words: "with another token than its request",
		message: events("started", func(_ []byte, ev *msp.Event) [][]byte {
			word := "u"
			ev.Started.Token = &word
			return again(msp.Header{Method: msp.MethodEvent}, ev)
		})},
	{name: "exit-code-lost", words: "with another code than 0",
		message: events("finished", func(_ []byte, ev *msp.Event) [][]byte {
			ev.Finished.ExitCode = nil
			return again(msp.Header{Method: msp.MethodEvent}, ev)
		})},
	{name: "event-before-reply", words: "started(1) run-reply(1)",
		message: func(l *liar, h msp.Header, payload []byte) [][]byte {
			if h.Method == msp.MethodRun && l.held == nil {
				l.held = whole(h, payload)
				return nil
			}
			out := [][]byte{whole(h, payload)}
			if l.held != nil {
				out, l.held = append(out, l.held), []byte{}
				out = slicesWithoutEmpty(out)
			}
			return out
		}},
	{name: "other-id", words: "run-reply(2)",
		message: replies(msp.MethodRun, func(v *msp.RunReply) { v.GenvmID++ })},
	{name: "stale-snapshot", words: "run1 is queued",
		message: replies(msp.MethodAttach, func(v *msp.AttachReply) {
			if s := v.Snapshot.Started; s != nil {
				v.Snapshot.Queued, v.Snapshot.Started = s, nil
			}
		})},
	{name: "other-error", words: "it was answered internal, not unknown_id",
		message: replies(msp.MethodError, func(v *msp.Error) {
			if v.Code == msp.CodeUnknownID {
				v.Code = msp.CodeInternal
			}
		})},
	{name: "ack-early", words: "it was answered unknown_id, not not_finished",
		message: replies(msp.MethodError, func(v *msp.Error) {
			if v.Code == msp.CodeNotFinished {
				v.Code = msp.CodeUnknownID
			}
		})},
	{name: "other-bytes", words: "the artifact is",
		message: replies(msp.MethodGetArtifact, func(v *msp.ArtifactReply) { v.Data = bytes.ToUpper(v.Data) })},
	{name: "permit-leaked", words: "free is 0, the model says free 1",
		text: func(s string) string { return strings.Replace(s, `"current":1`, `"current":0`, 1) }},
	{name: "boot-kept", words: "boot_id_mismatch",
		message: replies(msp.MethodError, func(v *msp.Error) {
			if v.Code == msp.CodeBootIDMismatch {
				v.Code = msp.CodeUnknownID
			}
		})},
}

func slicesWithoutEmpty(in [][]byte) (out [][]byte) {
	for _, b := range in {
		if len(b) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// TestLiesAreNoticed plants one fault in each kind of observation of a manager
// that is right, and expects a failure that names it.
func TestLiesAreNoticed(t *testing.T) {
	t.Attr("requirement", "CONF-3")
	shop := workshop(t)
	for _, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			s := Spec(configured(t, "replay-binary-one"), "in-process", shop, lying(inProcess(), l))
			s.MaxFailures, s.Parallel = 1, 1
			r, err := replay.Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Err(); err == nil || !strings.Contains(err.Error(), l.words) {
				t.Errorf("got %v, want words %q", err, l.words)
			}
		})
	}
}

// TestExecutorThatOutlivesIsNoticed restarts a manager that is not killed: its
// executor goes on.
func TestExecutorThatOutlivesIsNoticed(t *testing.T) {
	honest := inProcess()
	start := func(ctx context.Context, o Options) (*Manager, error) {
		m, err := honest(ctx, o)
		if err != nil {
			return nil, err
		}
		stop, wait := m.Stop, m.Wait
		m.Kill, m.Stop = func() {}, func() { stop() }
		m.Wait = func(context.Context) error { return nil }
		t.Cleanup(func() {
			stop()
			if err := wait(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return m, nil
	}
	s := Spec(manager.Config{Name: "outlived", Runs: 1, Conns: 1, Tokens: []uint8{0}, Kinds: []manager.Kind{manager.Plain},
		Restarts: 1, NoTime: true, Settled: true, Eager: true}, "in-process", workshop(t), start)
	s.MaxFailures, s.Parallel, s.StepTimeout = 1, 1, 2e9
	r, err := replay.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "outlives its manager") {
		t.Errorf("got %v", err)
	}
}
