package hostile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"microvms/agentd/api"
)

// floods is E7.
func floods() Row {
	return Row{
		ID: "E7", Name: "10 GiB of output that nobody reads, one endless line, stderr alone, single bytes",
		Expect:       "memory stays at the ring, totals are exact, what was cut is marked",
		Requirements: []string{"OUT-1", "OUT-2", "OUT-4", "OUT-7", "OUT-10", "OUT-19", "EXEC-18"},
		Cases: []Case{
			{Name: "one line without an end", Do: floodAs("", true)},
			{Name: "lines", Do: floodAs("| tr '\\0' '\\n'", true)},
			{Name: "stderr alone", Do: floodAs(">&2", false)},
			{Name: "single bytes on both", Do: singleBytes},
			{Name: "exactly the head", Do: exactlyTheHead},
		},
	}
}

// floodAs floods and reads nothing until the end.
func floodAs(suffix string, stdout bool) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		id := p.id()
		if err := p.start(ctx, id, script(fmt.Sprintf("head -c %d /dev/zero %s", p.Knobs.Volume, suffix))); err != nil {
			return err
		}
		total := uint64(p.Knobs.Volume)
		// Past the end nothing comes but the exit.
		t, err := p.follow(ctx, id, total)
		if err != nil {
			return err
		}
		if t.exit.Offset != total || !t.exit.Truncated || t.exit.ExitCode == nil || *t.exit.ExitCode != 0 {
			return fmt.Errorf("%d bytes ended with %+v", total, t.exit)
		}
		if t, err = p.follow(ctx, id, 0); err != nil {
			return err
		}
		// Of all that, the newest bytes are there, and as many as promised.
		kept := total - t.gapBytes
		if kept != uint64(p.Knobs.RingBytes) {
			return fmt.Errorf("%d bytes can be replayed, want %d", kept, p.Knobs.RingBytes)
		}
		if (t.errBytes == 0) != stdout || (t.outBytes == 0) == stdout {
			return fmt.Errorf("%d bytes on stdout, %d on stderr", t.outBytes, t.errBytes)
		}
		return p.drop(ctx, id)
	}
}

// singleBytes alternates between the streams.
func singleBytes(ctx context.Context, p *probe) error {
	const each = 2000
	id := p.id()
	loop := fmt.Sprintf("i=0; while [ $i -lt %d ]; do printf o; printf e >&2; i=$((i+1)); done", each)
	if err := p.start(ctx, id, script(loop)); err != nil {
		return err
	}
	t, err := p.follow(ctx, id, 0)
	if err != nil {
		return err
	}
	if string(t.out) != strings.Repeat("o", each) || string(t.err) != strings.Repeat("e", each) || t.exit.Offset != 2*each || t.exit.Truncated {
		return fmt.Errorf("%d and %d bytes, %+v", len(t.out), len(t.err), t.exit)
	}
	end, err := p.poll(ctx, id)
	if err == nil && (end.Stdout != string(t.out) || end.Stderr != string(t.err)) {
		err = fmt.Errorf("the poll has %d and %d bytes", len(end.Stdout), len(end.Stderr))
	}
	return err
}

// exactlyTheHead is not truncated; one byte more is, and keeps the head.
func exactlyTheHead(ctx context.Context, p *probe) error {
	for more := range int64(2) {
		id := p.id()
		text := script(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a", p.Knobs.HeadBytes+more))
		if err := p.start(ctx, id, text); err != nil {
			return err
		}
		end, err := p.ended(ctx, id)
		if err != nil {
			return err
		}
		if int64(len(end.Stdout)) != p.Knobs.HeadBytes || strings.Trim(end.Stdout, "a") != "" || end.Truncated != (more > 0) {
			return fmt.Errorf("%d bytes over the head: %d kept, truncated %v", more, len(end.Stdout), end.Truncated)
		}
		if err := p.drop(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// exactBytes is E8.
func exactBytes() Row {
	var every strings.Builder
	var lossy []byte
	for b := range 256 {
		fmt.Fprintf(&every, "\\%03o", b)
		if b < utf8.RuneSelf {
			lossy = append(lossy, byte(b))
		} else {
			lossy = append(lossy, "\uFFFD"...) // each of these alone is one invalid subpart
		}
	}
	all := make([]byte, 256)
	for b := range all {
		all[b] = byte(b)
	}
	return Row{
		ID: "E8", Name: "all byte values, characters cut at the chunk boundary, escapes",
		Expect:       "exact over the stream; lossy UTF-8 in the poll",
		Requirements: []string{"OUT-3", "OUT-5", "OUT-6", "OUT-15"},
		Cases: []Case{
			{Name: "all byte values", Do: exactly(func() string { return "printf '" + every.String() + "'" }, string(all), string(lossy))},
			{Name: "escapes", Do: exactly(func() string { return `printf '\033[2J\033]0;x\007\r\n<&>'` }, "\x1b[2J\x1b]0;x\x07\r\n<&>", "\x1b[2J\x1b]0;x\x07\r\n<&>")},
			{Name: "an invalid character for each of its parts", Do: exactly(
				func() string { return `printf '\360\237\230x\355\240\200y\300\200'` },
				"\xf0\x9f\x98x\xed\xa0\x80y\xc0\x80", "\uFFFDx\uFFFD\uFFFD\uFFFDy\uFFFD\uFFFD")},
			{Name: "a character cut at each boundary", Do: cutCharacters},
		},
	}
}

// exactly runs a script and holds its output against the bytes of the stream
// and the text of the poll.
func exactly(text func() string, stream, poll string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		id := p.id()
		if err := p.start(ctx, id, script(text())); err != nil {
			return err
		}
		t, err := p.follow(ctx, id, 0)
		if err != nil {
			return err
		}
		if string(t.out) != stream {
			err = fmt.Errorf("the stream has %q, want %q", t.out, stream)
		}
		// From each offset the rest is the same.
		for at := range uint64(min(len(stream), 16)) {
			if t, e := p.follow(ctx, id, at); e != nil || string(t.out) != stream[at:] {
				err = errors.Join(err, e, fmt.Errorf("from offset %d: %q", at, t.out))
			}
		}
		end, e := p.poll(ctx, id)
		if e == nil && (end.Outcome == nil || end.Stdout != poll) {
			e = fmt.Errorf("the poll has %+v, want %q", end.Outcome, poll)
		}
		return errors.Join(err, e)
	}
}

// cutCharacters has a character of four bytes lie across the boundaries at which
// the daemon reads and cuts, each of its bytes once on the far side.
func cutCharacters(ctx context.Context, p *probe) error {
	const chunk = 16384
	for shift := 1; shift <= 3; shift++ {
		id := p.id()
		text := fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a; i=0; while [ $i -lt 9000 ]; do printf '\\360\\237\\230\\200'; i=$((i+1)); done", chunk-shift)
		if err := p.start(ctx, id, script(text)); err != nil {
			return err
		}
		wanted := strings.Repeat("a", chunk-shift) + strings.Repeat("\U0001F600", 9000)
		t, err := p.follow(ctx, id, 0)
		if err != nil {
			return err
		}
		if string(t.out) != wanted {
			return fmt.Errorf("shift %d: the stream differs at byte %d", shift, differs(string(t.out), wanted))
		}
		end, err := p.poll(ctx, id)
		if err != nil {
			return err
		}
		if end.Outcome == nil || end.Stdout != wanted {
			return fmt.Errorf("shift %d: the poll differs", shift)
		}
	}
	return nil
}

func differs(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// ids is E4. The one rule for an id is that it is not empty and is text.
func ids() Row {
	works := func(name string, id func(p *probe) string) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error { return idWorks(ctx, p, id(p)) }}
	}
	suffix := func(s string) func(*probe) string { return func(p *probe) string { return p.id() + s } }
	return Row{
		ID: "E4", Name: "exec ids that are empty, huge, climbing, multi-line, no UTF-8",
		Expect:       "one rule; never a file name, never raw in the log",
		Requirements: []string{"EXEC-1", "EXEC-2", "EXEC-7", "EXEC-30", "EXEC-42", "PROC-1", "XPORT-13", "XPORT-33"},
		Cases: []Case{
			{Name: "empty", Do: badID(`""`)}, {Name: "absent", Do: func(ctx context.Context, p *probe) error {
				return p.expect(ctx, "POST", api.PathExecStart, `{"command":["/bin/true"]}`, refused(api.MalformedRequest))
			}},
			{Name: "null", Do: badID("null")}, {Name: "a number", Do: badID("5")}, {Name: "a list", Do: badID(`["a"]`)},
			{Name: "no UTF-8", Do: badID("\"\xff\xfe\"")}, {Name: "a lone surrogate", Do: badID(`"\udc00"`)},
			{Name: "no UTF-8 in the path", Do: pathIsNoText},
			{Name: "a key in another case", Do: func(ctx context.Context, p *probe) error {
				return p.expect(ctx, "POST", api.PathExecStart, `{"Exec_ID":"a","command":["/bin/true"]}`, refused(api.MalformedRequest))
			}},
			works("a climb", suffix("/../../../../tmp/x")), works("a slash first", func(p *probe) string { return "/" + p.id() }),
			works("lines", suffix("\n{\"level\":\"ERROR\"}\r\n")), works("escapes", suffix("\x1b[2J")), works("NUL", suffix("\x00")),
			works("spaces", suffix("  ")), works("percent", suffix("%2f%00")), works("a question", suffix("?offset=1#x")),
			works("another script", suffix("é-日本-\U0001F600")), works("decomposed", suffix("é")),
			works("4,096 bytes", func(p *probe) string { return longID(p, 4096) }),
			works("4,096 bytes that are percent-encoded", func(p *probe) string { return strings.ReplaceAll(longID(p, 4096), "x", " ") }),
			{Name: "4,097 bytes", Do: hugeID(4097)}, {Name: "300,000 bytes", Do: hugeID(300000)},
			{Name: "case variants differ", Do: idsDiffer("a", "A")},
			{Name: "composed and decomposed differ", Do: idsDiffer("\u00e9", "e\u0301")},
			{Name: "spaces differ", Do: idsDiffer("a", "a ")},
			{Name: "1 MiB", Do: hugeID(1 << 20)},
		},
	}
}

func badID(value string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		return p.expect(ctx, "POST", api.PathExecStart, `{"exec_id":`+value+`,"command":["/bin/true"]}`, refused(api.MalformedRequest))
	}
}

// idWorks takes an id through all its routes.
func idWorks(ctx context.Context, p *probe, id string) error {
	if err := p.start(ctx, id, argv("/bin/echo", "x")); err != nil {
		return err
	}
	end, err := p.ended(ctx, id)
	if err != nil {
		return err
	}
	if end.ExecID != id || end.Stdout != "x\n" {
		return fmt.Errorf("polled as %q with %+v", end.ExecID, end.Outcome)
	}
	if _, err := p.group(ctx, id); err != nil {
		return err
	}
	if _, err := p.kill(ctx, id); err != nil {
		return err
	}
	return p.drop(ctx, id)
}

// idsDiffer starts two ids that something could fold into one.
func idsDiffer(a, b string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		base := p.id()
		for _, s := range []string{a, b} {
			if err := p.start(ctx, base+s, argv("/bin/echo", s)); err != nil {
				return err
			}
		}
		for _, s := range []string{a, b} {
			end, err := p.ended(ctx, base+s)
			if err != nil {
				return err
			}
			if end.Stdout != s+"\n" {
				return fmt.Errorf("%q answers for %q", end.Stdout, s)
			}
		}
		return nil
	}
}

// longID returns an id of n bytes.
func longID(p *probe, n int) string {
	id := p.id()
	return id + strings.Repeat("x", n-len(id))
}

// hugeID is refused: what is started must have a path that names it.
func hugeID(n int) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		return p.expect(ctx, "POST", api.PathExecStart, argv("/bin/true").body(longID(p, n)), refused(api.MalformedRequest))
	}
}

// pathIsNoText names an execution, on each route, by bytes that are no UTF-8.
func pathIsNoText(ctx context.Context, p *probe) error {
	var errs []error
	for _, r := range []struct{ method, rest, body string }{
		{"GET", "", ""}, {"GET", "/stream", ""}, {"POST", "/stdin", "{}"}, {"POST", "/ack", ""}, {"POST", "/kill", ""},
	} {
		for _, id := range []string{"%ff", "a%e2%82", "%c0%af", "%ed%a0%80"} {
			errs = append(errs, p.expect(ctx, r.method, "/v1/exec/"+id+r.rest, r.body, refused(api.UnknownExec)))
		}
	}
	return errors.Join(errs...)
}

// zeros is a command that writes n bytes as fast as its reader takes them.
func zeros(n int64) keys { return argv("/usr/bin/head", "-c", fmt.Sprint(n), "/dev/zero") }
