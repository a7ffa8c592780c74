package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"

	"microvms/agentd/api"
)

// timeouts is H10. Wire version 1 does not return the timeout in force.
func timeouts() Row {
	bad := func(name, value string) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error {
			return p.refusedStart(ctx, argv("/bin/true").with("timeout_sec", json.RawMessage(value)), refused(api.MalformedRequest))
		}}
	}
	good := func(name string, value string) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error {
			id := p.id()
			k := argv("/bin/true")
			if value != "" {
				k = k.with("timeout_sec", json.RawMessage(value))
			}
			if err := p.start(ctx, id, k); err != nil {
				return err
			}
			end, err := p.ended(ctx, id)
			if err == nil && (end.TimedOut || end.ExitCode == nil || *end.ExitCode != 0) {
				err = fmt.Errorf("ended with %+v", end.Outcome)
			}
			return err
		}}
	}
	return Row{
		ID: "H10", Name: "timeouts that are negative, zero, huge, no number, fractions",
		Expect:       "each judged before the spawn",
		Requirements: []string{"EXEC-6", "EXEC-8", "EXEC-32", "EXEC-34", "XPORT-13"},
		Cases: []Case{
			bad("-1", "-1"), bad("0", "0"), bad("-0.0", "-0.0"), bad("0.0", "0.0"), bad(`"5"`, `"5"`), bad("true", "true"),
			bad("[5]", "[5]"), bad("{}", "{}"), bad(`"NaN"`, `"NaN"`), bad("1e400", "1e400"), bad("-1e400", "-1e400"), bad("1e20", "1e20"),
			{Name: "NaN", Do: badJSON(`"timeout_sec":NaN`)},
			{Name: "Infinity", Do: badJSON(`"timeout_sec":Infinity`)},
			{Name: "0x5", Do: badJSON(`"timeout_sec":0x5`)},
			{Name: "+5", Do: badJSON(`"timeout_sec":+5`)},
			{Name: "twice", Do: badJSON(`"timeout_sec":5,"timeout_sec":6`)},
			good("1e18", "1e18"), good("1e10", "1e10"), good("30.5", "30.5"), good("null", "null"), good("absent", ""),
			{Name: "0.5", Do: shortTimeout("0.5")},
			{Name: "5e-324", Do: shortTimeout("5e-324")},
		},
	}
}

// badJSON sends a start whose body cannot be made by an encoder.
func badJSON(member string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		id := p.id()
		p.mine(id)
		body := fmt.Sprintf(`{"exec_id":%q,"command":["/bin/true"],%s}`, id, member)
		return errors.Join(
			p.expect(ctx, "POST", api.PathExecStart, body, refused(api.MalformedRequest)),
			p.expect(ctx, "GET", execPath(id, ""), "", refused(api.UnknownExec)),
		)
	}
}

// shortTimeout expects a fraction of a second to be in force.
func shortTimeout(value string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		id := p.id()
		if err := p.start(ctx, id, argv("/bin/sleep", "300").with("timeout_sec", json.RawMessage(value))); err != nil {
			return err
		}
		end, err := p.ended(ctx, id)
		if err == nil && (!end.TimedOut || end.Signal == nil || *end.Signal != 15 || end.ExitCode != nil) {
			err = fmt.Errorf("ended with %+v", end.Outcome)
		}
		return err
	}
}

// paths is H11.
func paths() Row {
	get := func(name, target string, w want) Case {
		return Case{Name: name, Want: w, Input: func(p *probe) string { return head("GET", target) + bearer(p) + "\r\n" }}
	}
	none := is(404).bodiless()
	unknown := refused(api.UnknownExec)
	return Row{
		ID: "H11", Name: "paths that a router could normalise into a route",
		Expect:       "404: no path is another's",
		Requirements: []string{"XPORT-1", "XPORT-2", "XPORT-3", "EXEC-30", "EXEC-34"},
		Cases: []Case{
			get("an encoded climb is an id", "/v1/exec/..%2f..%2fhealth", unknown),
			get("an encoded NUL is an id", "/v1/exec/%00", unknown),
			get("an encoded slash is no separator", "/v1/exec/a%2fstream", unknown),
			get("an encoded prefix", "/v1%2fhealth", none),
			get("an encoded suffix", "/v1/health%2f", none),
			get("an encoded query", "/v1/health%3fa", none),
			get("two slashes first", "//v1/exec", none),
			get("two slashes before a route", "//v1/health", none),
			get("two slashes inside", "/v1//health", none),
			get("an empty id", "/v1/exec//stream", none),
			get("4,000 slashes", strings.Repeat("/", 4000), none),
			get("4,000 slashes, then a route", strings.Repeat("/", 4000)+"v1/health", none),
			get("a climb", "/v1/exec/../health", none),
			get("a climb from the root", "/../v1/health", none),
			get("a dot", "/v1/./health", none),
			get("a slash at the end", "/v1/health/", none),
			get("another case", "/V1/Health", none),
			get("a parameter", "/v1/health;a=b", none),
			get("a backslash", `/v1\health`, none),
			get("the hook's prefix doubled", "/"+api.HookPrefix+"/ready", none),
			get("half an escape", "/v1/exec/%2", is(400).thenClosed()),
			get("no escape", "/v1/exec/%zz", is(400).thenClosed()),
			get("a start is no id", api.PathExecStart, is(405).bodiless()),
			{Name: "a refused path needs no token", Want: none, Input: func(*probe) string { return head("GET", "//v1/procs") + "\r\n" }},
			{Name: "an encoded climb needs the token", Want: is(401).bodiless(), Input: func(*probe) string {
				return head("GET", "/v1/exec/..%2f..%2fhealth") + "\r\n"
			}},
			{Name: "a star", Want: none, Input: func(*probe) string { return head("OPTIONS", "*") + "\r\n" }},
		},
	}
}

// offsets is H14. Offsets past the end wait for output (wire facts, section
// 7.3), and the contract has no Last-Event-ID: the offset alone counts.
func offsets() Row {
	bad := func(name, query string) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error {
			// Judged before the id, so an unknown one makes no difference.
			return p.expect(ctx, "GET", "/v1/exec/unknown/stream?"+query, "", refused(api.MalformedRequest))
		}}
	}
	return Row{
		ID: "H14", Name: "offsets that are negative, past the end, no integer, repeated",
		Expect:       "400, or the wait for output past the end; never clamped",
		Requirements: []string{"OUT-5", "OUT-6", "OUT-14", "OUT-20", "EXEC-34"},
		Cases: []Case{
			bad("-1", "offset=-1"), bad("-0", "offset=-0"), bad("+1", "offset=%2b1"), bad("a plus as a space", "offset=+1"),
			bad("empty", "offset="), bad("no value", "offset"), bad("hexadecimal", "offset=0x10"), bad("a fraction", "offset=1.5"),
			bad("an exponent", "offset=1e3"), bad("2^64", "offset=18446744073709551616"), bad("2^64 and more", "offset=99999999999999999999999"),
			bad("separators", "offset=1_000"), bad("a space", "offset=1%20"), bad("a NUL", "offset=1%00"), bad("another script", "offset="+url.QueryEscape("١")),
			bad("no escape", "offset=%zz"), bad("twice", "offset=0&offset=0"), bad("twice, differing", "offset=1&offset=2"),
			bad("twice, one encoded", "offset=0&%6fffset=1"), bad("among others", "a=b&offset=-1&c"),
			{Name: "inside, at and past the end of what has ended", Do: offsetsAfterExit},
			{Name: "past the end of what runs", Do: offsetsAhead},
			{Name: "a Last-Event-ID that contradicts", Do: lastEventID},
		},
	}
}

func offsetsAfterExit(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, script("printf 0123456789")); err != nil {
		return err
	}
	for _, c := range []struct {
		offset uint64
		out    string
	}{{0, "0123456789"}, {4, "456789"}, {9, "9"}, {10, ""}, {11, ""}, {1 << 63, ""}, {math.MaxUint64, ""}} {
		t, err := p.follow(ctx, id, c.offset)
		if err != nil {
			return fmt.Errorf("offset %d: %w", c.offset, err)
		}
		if string(t.out) != c.out || t.exit.Offset != 10 || t.gapBytes != 0 {
			return fmt.Errorf("offset %d: %q, exit at %d, %d bytes in gaps", c.offset, t.out, t.exit.Offset, t.gapBytes)
		}
	}
	return nil
}

// offsetsAhead attaches past the present end and expects exactly the bytes from
// there on.
func offsetsAhead(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, argv("/bin/cat").with("stdin", true)); err != nil {
		return err
	}
	cases := []struct {
		offset uint64
		out    string
	}{{1, "123456789"}, {6, "6789"}, {10, ""}, {11, ""}, {1 << 63, ""}}
	streams := make([]*peer, len(cases))
	for i, c := range cases {
		s, err := p.attach(ctx, id, c.offset)
		if err != nil {
			return err
		}
		defer s.Close()
		streams[i] = s
	}
	if err := p.expect(ctx, "POST", execPath(id, "/stdin"), `{"data_b64":"MDEyMzQ1Njc4OQ==","signal":"eof"}`, is(200)); err != nil {
		return err
	}
	for i, c := range cases {
		t, err := streams[i].events(c.offset)
		if err != nil {
			return fmt.Errorf("offset %d: %w", c.offset, err)
		}
		if string(t.out) != c.out || t.exit.Offset != 10 || t.gapBytes != 0 {
			return fmt.Errorf("offset %d: %q, exit at %d, %d bytes in gaps", c.offset, t.out, t.exit.Offset, t.gapBytes)
		}
	}
	return nil
}

func lastEventID(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, script("printf 0123456789")); err != nil {
		return err
	}
	if _, err := p.ended(ctx, id); err != nil {
		return err
	}
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(c, "%s%sLast-Event-ID: 7\r\n\r\n", head("GET", execPath(id, "/stream")+"?offset=4"), bearer(p))
	r, err := c.answer("GET")
	if err != nil {
		return err
	}
	if err := is(200).match(r); err != nil {
		return err
	}
	t, err := readStream(strings.NewReader(string(r.body)), 4)
	if err == nil && string(t.out) != "456789" {
		err = fmt.Errorf("from offset 4: %q", t.out)
	}
	return err
}
