package hostile

import (
	"context"
	"fmt"
	"strings"

	"microvms/agentd/api"
)

// authorization is H1. The token is compared as bytes: neither decoded, trimmed
// nor folded; only the scheme is folded.
func authorization() Row {
	unauthorized := is(401).bodiless()
	// A control character in a field value makes the request itself malformed
	// (RFC 9110, section 5.5): it may be refused before any authorization.
	neverValid := is(400, 401)
	procs := func(name string, w want, lines func(token string) string) Case {
		return Case{Name: name, Want: w, Input: func(p *probe) string {
			return head("GET", api.PathProcs) + lines(p.Token) + "\r\n"
		}}
	}
	value := func(name string, w want, v func(token string) string) Case {
		return procs(name, w, func(t string) string { return "Authorization: " + v(t) + "\r\n" })
	}
	return Row{
		ID: "H1", Name: "Authorization that is missing, wrong, repeated or malformed",
		Expect:       "401 with an empty body, before any byte of the body",
		Requirements: []string{"AGENTD-5", "AGENTD-6", "AUTHZ-2", "AUTHZ-3", "AUTHZ-4", "AUTHZ-5", "AUTHZ-8", "XPORT-1"},
		Cases: []Case{
			procs("none", unauthorized, func(string) string { return "" }),
			value("empty", unauthorized, func(string) string { return "" }),
			value("scheme alone", unauthorized, func(string) string { return "Bearer" }),
			value("token alone", unauthorized, func(t string) string { return t }),
			value("another scheme", unauthorized, func(t string) string { return "Basic " + t }),
			value("a second space", unauthorized, func(t string) string { return "Bearer  " + t }),
			value("a tab for the space", unauthorized, func(t string) string { return "Bearer\t" + t }),
			value("token cut", unauthorized, func(t string) string { return "Bearer " + t[:len(t)-1] }),
			value("token with a byte more", unauthorized, func(t string) string { return "Bearer " + t + "x" }),
			value("token in another case", unauthorized, func(t string) string { return "Bearer " + swapCase(t) }),
			value("token percent-encoded", unauthorized, func(t string) string { return fmt.Sprintf("Bearer %%%02x%s", t[0], t[1:]) }),
			value("token quoted", unauthorized, func(t string) string { return `Bearer "` + t + `"` }),
			value("no UTF-8", unauthorized, func(t string) string { return "Bearer \xff\xfe" + t }),
			value("1 MiB", unauthorized, func(string) string { return "Bearer " + strings.Repeat("x", 1<<20) }),
			procs("right one twice", unauthorized, func(t string) string {
				return strings.Repeat("Authorization: Bearer "+t+"\r\n", 2)
			}),
			procs("right one, then a wrong one", unauthorized, func(t string) string {
				return "Authorization: Bearer " + t + "\r\nauthorization: Bearer x\r\n"
			}),
			procs("wrong one, then the right one", unauthorized, func(t string) string {
				return "Authorization: Bearer x\r\nAUTHORIZATION: Bearer " + t + "\r\n"
			}),
			value("trailing NUL", neverValid, func(t string) string { return "Bearer " + t + "\x00" }),
			value("trailing carriage return", neverValid, func(t string) string { return "Bearer " + t + "\r" }),
			value("folded over a newline", neverValid, func(t string) string { return "Bearer " + t + "\r\n x" }),
			value("scheme in lower case", is(200), func(t string) string { return "bearer " + t }),
			value("scheme in mixed case", is(200), func(t string) string { return "bEARER " + t }),
			{Name: "wrong token before a body that never comes", Want: unauthorized, Input: func(p *probe) string {
				return head("POST", api.PathExecStart) + "Authorization: Bearer x\r\nContent-Type: application/json\r\nContent-Length: 65535\r\n\r\n"
			}},
			{Name: "wrong token before a malformed body", Want: unauthorized, Input: func(p *probe) string {
				return head("POST", api.PathExecStart) + "Authorization: Bearer x\r\n" + jsonBody("{")
			}},
			{Name: "a refused start has no effect", Do: refusedStartHasNoEffect},
		},
	}
}

func swapCase(s string) string {
	if t := strings.ToUpper(s); t != s {
		return t
	}
	return strings.ToLower(s)
}

func refusedStartHasNoEffect(ctx context.Context, p *probe) error {
	id := p.id()
	input := head("POST", api.PathExecStart) + "Authorization: Bearer " + p.Token + "x\r\n" + jsonBody(argv("/bin/true").body(id))
	if err := p.exchange(ctx, input, is(401).bodiless()); err != nil {
		return err
	}
	return p.expect(ctx, "GET", execPath(id, ""), "", refused(api.UnknownExec))
}

// expectations is H6: who waits for a 100 before sending a body, and is refused,
// must not be invited to send it.
func expectations() Row {
	expecting := func(name, target, auth string, w want) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) error {
			lines := strings.ReplaceAll(auth, "TOKEN", p.Token)
			return p.exchange(ctx, head("POST", target)+lines+
				"Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n", w.thenClosed())
		}}
	}
	return Row{
		ID: "H6", Name: "Expect: 100-continue on a request that is refused",
		Expect:       "the refusal with no 100 before it",
		Requirements: []string{"XPORT-15", "AUTHZ-4", "XPORT-1"},
		Cases: []Case{
			expecting("wrong token", api.PathExecStart, "Authorization: Bearer x\r\n", is(401).bodiless()),
			expecting("no token", api.PathExecStart, "", is(401).bodiless()),
			expecting("two tokens", api.PathExecStart, "Authorization: Bearer TOKEN\r\nAuthorization: Bearer TOKEN\r\n", is(401).bodiless()),
			expecting("unknown path", "/v1/none", "", is(404).bodiless()),
			expecting("wrong method", api.PathProcs, "Authorization: Bearer TOKEN\r\n", is(405).bodiless()),
			expecting("hook body above its cap", api.HookPrefix+"/ready", "", is(413)),
			{Name: "accepted", Do: invited},
		},
	}
}

// invited checks the other side: an accepted request is invited, or none of the
// cases above would mean anything.
func invited(ctx context.Context, p *probe) error {
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	id := p.id()
	p.mine(id)
	body := argv("/bin/true").body(id)
	fmt.Fprintf(c, "%s%sExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		head("POST", api.PathExecStart), bearer(p), len(body))
	line, err := c.br.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		return fmt.Errorf("invited by %q: %v", line, err)
	}
	if _, err := c.br.ReadString('\n'); err != nil {
		return err
	}
	fmt.Fprint(c, body)
	r, err := c.answer("POST")
	if err != nil {
		return err
	}
	return is(200).match(r)
}
