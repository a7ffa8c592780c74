package hostile

import (
	"context"
	"fmt"
	"strings"

	"microvms/agentd/api"
)

// noNames are strings that no user, group or shell has for a name, and that a
// careless reader of its files would take for one.
var noNames = []string{
	"", " ", "\n", "\x00", "no-such-name\x00", ":", "root:x:0:0", "root\n", " root", "root ", "ROOT", "#", "+", "-", "+0", "-0", "-1", "0x0", "0.0", "1e1",
	"4294967296", "18446744073709551616", "٣", "１２", "..", "../etc/passwd", "$(id -u)", "%s%n", "\x1b[2J", "é\u0301",
}

// userNames is A1: names where a start request may give one.
func userNames() Row {
	refuses := func(key string, code api.Code, values ...string) Case {
		return Case{Name: key + "s that are none", Do: func(ctx context.Context, p *probe) error {
			for _, v := range values {
				if err := p.refusedStart(ctx, argv("/bin/true").with(key, v), refused(code)); err != nil {
					return fmt.Errorf("%s %.40q: %w", key, v, err)
				}
			}
			return nil
		}}
	}
	long := strings.Repeat("n", 1<<20)
	return Row{
		ID: "A1", Name: "users, groups and shells that are no names, too long, or another file's",
		Expect:       "a typed refusal before the spawn, of a bounded length; never another user, group or shell",
		Requirements: []string{"AGENTD-8", "AGENTD-15", "ACCOUNT-9", "ACCOUNT-11", "EXEC-6"},
		Cases: []Case{
			refuses("user", api.UnknownUser, append([]string{long}, noNames...)...),
			refuses("group", api.UnknownGroup, append([]string{long}, noNames...)...),
			refuses("shell", api.UnknownShell, long, " ", "\n", "\x00", "sh\x00", "/bin/sh\x00", ".", "..", "/", "/bin", "/etc/passwd", "bin/sh", "./sh", "../bin/sh",
				"../../../../bin/sh", "/no/such/shell", "sh -c id", "$(id)", "/dev/null", "/proc/self/mem"),
			{Name: "the refusal is short and names the value", Do: shortRefusal},
			{Name: "user before group before shell", Do: func(ctx context.Context, p *probe) error {
				k := argv("/bin/true").with("shell", "no-such-shell")
				if err := p.refusedStart(ctx, k.with("group", "no-such-group"), refused(api.UnknownGroup)); err != nil {
					return err
				}
				return p.refusedStart(ctx, k.with("user", "no-such-user"), refused(api.UnknownUser))
			}},
		},
	}
}

// shortRefusal sends a name of 1 MiB and one with an escape sequence: the answer
// must not carry the whole of the one, nor the other unescaped.
func shortRefusal(ctx context.Context, p *probe) error {
	for _, name := range []string{strings.Repeat("ä", 1<<19), "no-such-\x1b[2J"} {
		id := p.id()
		p.mine(id)
		r, err := p.call(ctx, "POST", api.PathExecStart, argv("/bin/true").with("user", name).body(id))
		if err != nil {
			return err
		}
		if err := refused(api.UnknownUser).match(r); err != nil {
			return err
		}
		if len(r.body) > 2048 || strings.Contains(string(r.body), "\x1b") || !strings.Contains(string(r.body), name[:8]) {
			return fmt.Errorf("the refusal has %d bytes, holds an escape or does not name the value", len(r.body))
		}
	}
	return nil
}
