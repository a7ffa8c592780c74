package executor

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/manager/internal/runs"
)

// The vectors of manager facts, section 8.
const (
	smallestBlob = "006e096261636b74726163650004646174610012646174615f666565735f636f6e73756d65642e056576656e74010b6d6573736167655f666565010f6d6573736167655f72656365697074010d6e6f6e6465745f6f7574707574010773746f726167650113646174615f666565735f72656d61696e696e670509656d697373696f6e73050e657865637574696f6e5f6861736883020101010101010101010101010101010101010101010101010101010101010101046b696e643452657475726e0f6c6c6d5f636f6e73756d7074696f6e01136e6f6e6465745f64697361677265656d656e74000e6e6f6e6465745f726573756c7473050a736d616c6c5f68617368830202020202020202020202020202020202020202020202020202020202020202020f73746f726167655f6368616e67657305117761736d5f73746f72655f68617368657306"
	boomBlob     = "036e096261636b747261636500046461746124626f6f6d12646174615f666565735f636f6e73756d65642e056576656e74010b6d6573736167655f666565010f6d6573736167655f72656365697074010d6e6f6e6465745f6f7574707574010773746f726167650113646174615f666565735f72656d61696e696e670509656d697373696f6e73050e657865637574696f6e5f6861736803046b696e646c496e7465726e616c4572726f720f6c6c6d5f636f6e73756d7074696f6e01136e6f6e6465745f64697361677265656d656e74000e6e6f6e6465745f726573756c7473050a736d616c6c5f68617368030f73746f726167655f6368616e67657305117761736d5f73746f72655f68617368657306"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// peer is the executor's end of a served connection.
type peer struct {
	t    *testing.T
	conn net.Conn
	host *hostOne
}

// serve serves a connection and returns the executor's end.
func serve(t *testing.T, h *hostOne) *peer {
	t.Helper()
	h.done, h.log = make(chan struct{}), slog.New(slog.DiscardHandler)
	if h.limit == 0 {
		h.limit = DefaultMaxResultBytes
	}
	h.ctx, h.cancel = context.WithCancel(t.Context())
	fd, err := h.open()
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "peer")
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go h.serve()
	t.Cleanup(func() { conn.Close(); <-h.done })
	return &peer{t, conn, h}
}

// send writes a method with a length and bytes.
func (p *peer) send(m msp.HostMethod, blob []byte) {
	p.t.Helper()
	p.write(append(binary.LittleEndian.AppendUint32([]byte{byte(m)}, uint32(len(blob))), blob...))
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// expect reads exactly these bytes.
func (p *peer) expect(want ...byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.conn, got); err != nil || !bytes.Equal(got, want) {
		p.t.Errorf("answer %x, error %v; want %x", got, err, want)
	}
}

// expectEnd reads the end of the connection and no byte before it.
func (p *peer) expectEnd() {
	p.t.Helper()
	n, err := io.Copy(io.Discard, p.conn)
	if n != 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		p.t.Errorf("%d bytes and error %v; want the end", n, err)
	}
	p.conn.Close()
	<-p.host.done
}

func TestResultIsTakenAsItIs(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-31")
	for name, blob := range map[string][]byte{"empty": {}, "garbage": {0xff, 0}, "smallest": unhex(t, smallestBlob)} {
		p := serve(t, &hostOne{})
		p.send(msp.HostConsumeResult, blob)
		p.expect(0)
		if got := p.host.taken(); got == nil || !bytes.Equal(got, blob) {
			t.Errorf("%s: taken %x, want %x", name, got, blob)
		}
	}
}

// TestResultWireVectors holds the two vectors to their bytes on the wire.
func TestResultWireVectors(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-31")
	for head, blob := range map[string]string{"0648010000": smallestBlob, "0611010000": boomBlob} {
		p := serve(t, &hostOne{strict: true})
		p.write(unhex(t, head+blob))
		p.expect(0)
		if got := hex.EncodeToString(p.host.taken()); got != blob {
			t.Errorf("taken %s, want %s", got, blob)
		}
	}
}

func TestFirstResultWins(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-33")
	p := serve(t, &hostOne{})
	for _, blob := range []string{"first", "second", ""} {
		p.send(msp.HostConsumeResult, []byte(blob))
		p.expect(0)
	}
	if got := string(p.host.taken()); got != "first" {
		t.Errorf("taken %q, want the first", got)
	}
}

func TestResultIsBounded(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-32")
	p := serve(t, &hostOne{limit: 10})
	p.send(msp.HostConsumeResult, make([]byte, 10))
	p.expect(0)
	p = serve(t, &hostOne{limit: 10})
	p.write([]byte{byte(msp.HostConsumeResult), 11, 0, 0, 0})
	p.expectEnd()
	if p.host.taken() != nil {
		t.Error("a result beyond the bound was taken")
	}
	p = serve(t, &hostOne{limit: 10})
	p.write([]byte{byte(msp.HostRunNested), 11, 0, 0, 0})
	p.expectEnd()
}

// TestAnnouncedBytesCostNoMemory has sixteen executors announce as much as is
// allowed, and send nothing of it.
func TestAnnouncedBytesCostNoMemory(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-32")
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h := &hostOne{limit: DefaultMaxResultBytes}
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			h.conn = r
			w.Close()
			if _, err := h.read(DefaultMaxResultBytes); err == nil {
				b.Fatal("nothing was sent, and something was read")
			}
			r.Close()
		}
	})
	if n := result.AllocedBytesPerOp(); n == 0 || n > 1<<16 {
		t.Errorf("an announcement of %d bytes costs %d bytes", DefaultMaxResultBytes, n)
	}
}

func TestResolveIsAnsweredNull(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-35")
	p := serve(t, &hostOne{})
	for range 2 {
		p.write(append([]byte{byte(msp.HostResolveExecutor)}, make([]byte, 22)...))
		p.expect(0, 1, 0, 0, 0, 0)
	}
	p = serve(t, &hostOne{hooked: true})
	p.write([]byte{byte(msp.HostResolveExecutor)})
	p.expectEnd()
}

func TestOtherMethodsEndTheServing(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-36")
	for m := range 256 {
		switch msp.HostMethod(m) {
		case msp.HostConsumeResult, msp.HostResolveExecutor, msp.HostRunNested:
			continue
		}
		p := serve(t, &hostOne{})
		p.write([]byte{byte(m)})
		p.expectEnd()
	}
}

// reported is a valid result with a change.
func reported(t *testing.T, code byte, change func(*msp.ReportedResult)) []byte {
	t.Helper()
	var r msp.ReportedResult
	if err := calldata.Unmarshal(unhex(t, smallestBlob)[1:], &r); err != nil {
		t.Fatal(err)
	}
	change(&r)
	return append([]byte{code}, encode(t, &r)...)
}

func TestStrictResultsAreValidated(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-34")
	kind := func(k msp.ResultKind) func(*msp.ReportedResult) { return func(r *msp.ReportedResult) { r.Kind = k } }
	unknown := encode(t, map[string]any{"kind": "Return"})
	for name, tc := range map[string]struct {
		blob []byte
		want []byte // nil: refused
	}{
		"return":            {unhex(t, smallestBlob), unhex(t, smallestBlob)},
		"internal error":    {unhex(t, boomBlob), unhex(t, boomBlob)},
		"user error":        {reported(t, 1, kind(msp.ResultUserError)), reported(t, 1, kind(msp.ResultUserError))},
		"fatal becomes VM":  {reported(t, 4, kind(msp.ResultFatalVMError)), reported(t, 2, kind(msp.ResultVMError))},
		"empty":             {[]byte{}, nil},
		"no map":            {[]byte{0}, nil},
		"other code":        {reported(t, 1, kind(msp.ResultReturn)), nil},
		"code beyond":       {reported(t, 5, kind(msp.ResultReturn)), nil},
		"fields missing":    {append([]byte{0}, unknown...), nil},
		"bytes after":       {append(unhex(t, smallestBlob), 0), nil},
		"short hash":        {reported(t, 0, func(r *msp.ReportedResult) { r.ExecutionHash = r.ExecutionHash[1:] }), nil},
		"short small hash":  {reported(t, 0, func(r *msp.ReportedResult) { r.SmallHash = nil }), nil},
		"internal, no hash": {reported(t, 3, func(r *msp.ReportedResult) { r.Kind, r.SmallHash = msp.ResultInternalError, []byte{} }), reported(t, 3, func(r *msp.ReportedResult) { r.Kind, r.SmallHash = msp.ResultInternalError, []byte{} })},
	} {
		p := serve(t, &hostOne{strict: true})
		p.send(msp.HostConsumeResult, tc.blob)
		if tc.want == nil {
			p.expectEnd()
		} else {
			p.expect(0)
		}
		if got := p.host.taken(); !bytes.Equal(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%s: taken %x, want %x", name, got, tc.want)
		}
	}
}

// TestResultOfARun drives a whole run: its result is in the report, with the
// version of its executor.
func TestResultOfARun(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-31")
	req := request()
	req.Selector.Version = "v0.3.7"
	l := newLauncher(t, func(c *Config) { c.StrictResults = true })
	o := run(t, l, req)
	if got := hex.EncodeToString(o.Report.Consumed); got != smallestBlob || o.exit() != "exited 0" {
		t.Errorf("%s, consumed %s", o.exit(), got)
	}
	if o.Report.VersionMajor != 0 || o.Report.VersionMinor != 3 || o.Report.Metrics != nil {
		t.Errorf("version %d.%d, metrics %x", o.Report.VersionMajor, o.Report.VersionMinor, o.Report.Metrics)
	}
	o = run(t, l, request("result=00", "exit=0"))
	if o.exit() != "exited 125" || o.Report.Consumed != nil {
		t.Errorf("an invalid result: %s, consumed %x", o.exit(), o.Report.Consumed)
	}
	o = run(t, newLauncher(t, nil), request("result-bytes=1000000", "exit=7"))
	if o.exit() != "exited 7" || len(o.Report.Consumed) != 1000000 {
		t.Errorf("a large result: %s, %d bytes", o.exit(), len(o.Report.Consumed))
	}
}

// spawnedWithout serves the channels of a process that is not there. Its log
// has ended; its end of the host socket is the caller's to close.
func spawnedWithout(t *testing.T, p *process) int {
	t.Helper()
	log, err := p.log.open()
	if err != nil {
		t.Fatal(err)
	}
	host, err := p.host.open()
	if err != nil {
		t.Fatal(err)
	}
	p.spawned(true)
	closeFD(t, log)
	return host
}

// TestResultAfterTheExit sends a result when the end of the process is known.
func TestResultAfterTheExit(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-29")
	p := parentOf(t, newLauncher(t, nil), request())
	fd := spawnedWithout(t, p)
	<-p.log.done
	report := make(chan runs.Report, 1)
	go func() { report <- p.finish(t.Context()) }()
	<-p.host.ctx.Done()
	for range 1000 {
		runtime.Gosched()
	}
	if _, err := unix.Write(fd, []byte{byte(msp.HostConsumeResult), 2, 0, 0, 0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	closeFD(t, fd)
	if r := <-report; !bytes.Equal(r.Consumed, []byte{1, 2}) {
		t.Errorf("consumed %x, want 0102", r.Consumed)
	}
}

// TestHeldHostSocketDelaysTheEndByTheLingerOnly holds the host socket open for ever.
func TestHeldHostSocketDelaysTheEndByTheLingerOnly(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-29")
	p := parentOf(t, newLauncher(t, nil), request())
	fd := spawnedWithout(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := p.finish(ctx); r.Consumed != nil {
		t.Errorf("consumed %x, and nothing was sent", r.Consumed)
	}
	p.close()
	<-p.host.done
	closeFD(t, fd)
}
