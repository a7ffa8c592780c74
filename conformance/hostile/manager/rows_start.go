package manager

import (
	"context"
	"fmt"
	"strings"

	"microvms/agentd/api/msp"
)

func startRows() []Row {
	version := func(name string) func(*msp.RunRequest) {
		return func(r *msp.RunRequest) { r.Selector.Version = name }
	}
	var cases []Case
	for _, c := range []struct {
		name string
		edit func(*msp.RunRequest)
	}{
		{"an argument with NUL", func(r *msp.RunRequest) { r.ExtraArgs = []string{"a\x00b"} }},
		{"an argument of 3 MiB", func(r *msp.RunRequest) { r.ExtraArgs = []string{strings.Repeat("x", 3<<20)} }},
		{"arguments of 8 MiB together", func(r *msp.RunRequest) {
			r.ExtraArgs = strings.Split(strings.Repeat(strings.Repeat("x", 100<<10)+",", 80), ",")
		}},
		{"a host with NUL", func(r *msp.RunRequest) { r.Host = "unix:///a\x00b" }},
		{"permissions with NUL", func(r *msp.RunRequest) { r.Permissions = "w\x00" }},
		{"a descriptor as host", func(r *msp.RunRequest) { r.Host = "fd://0" }},
		{"another descriptor as host", func(r *msp.RunRequest) { r.Host = "fd://4" }},
		{"version ..", version("..")},
		{"version .", version(".")},
		{"version of no byte", version("")},
		{"version ../demo", version("../demo")},
		{"version demo/../demo", version(Executor + "/../" + Executor)},
		{"version demo/", version(Executor + "/")},
		{"an absolute version", version("/bin")},
		{"version with NUL", version(Executor + "\x00")},
		{"version with a NUL that cuts", version(Executor + "\x00/../../x")},
		{"version of a MiB", version(strings.Repeat("v", 1<<20))},
		{"version with an escape sequence", version("\x1b[2J\r\n")},
		{"a pattern that is none", version("re:(")},
		{"a pattern that explodes elsewhere", version("re:(a+)+(a+)+(a+)+$")},
		{"a pattern with a large repeat", version("re:((a{100}){100}){100}")},
		{"a pattern of a MiB", version("re:" + strings.Repeat("(a|b)*", 1<<17))},
		{"a major version of 2^32-1", func(r *msp.RunRequest) { r.Selector = msp.Selector{Major: 1<<32 - 1} }},
	} {
		cases = append(cases, Case{c.name, failsToStart(c.edit)})
	}
	cases = append(cases,
		Case{"an override below its mode", with(func(c *peer) error {
			r := run("stdout=x")
			r.DebugMode, r.UnsafeOverrides.RerouteTo = msp.DebugDisabled, "../other"
			f, err := c.whole(r)
			if err != nil {
				return err
			}
			return c.ack(f.GenvmID)
		})},
		Case{"an override with ..", failsToStart(func(r *msp.RunRequest) { r.UnsafeOverrides.RerouteTo = "../other" })},
	)
	return []Row{{
		ID: "X5", Name: "runs whose arguments or versions are traps",
		Expect:       "failed_to_start, and no process",
		Requirements: []string{"EXECUTOR-2", "EXECUTOR-3", "EXECUTOR-8", "EXECUTOR-17", "MGR-7", "MGR-19"},
		Cases:        cases,
	}}
}

// failsToStart runs an edited request, which must not become a process.
func failsToStart(edit func(*msp.RunRequest)) func(context.Context, *probe) error {
	return inWith(func(_ context.Context, p *probe, c *peer) error {
		r := run("stdout=x")
		edit(r)
		if b, err := (&msp.Request{Run: r}).Message(1); err == nil && int64(len(b)) > p.Knobs.MaxMessage {
			return skipped("the manager takes no message of that size")
		}
		id, err := c.start(r)
		if err != nil {
			return err
		}
		ev, err := c.finish(id)
		if err != nil {
			return err
		}
		if ev.FailedToStart == nil || ev.FailedToStart.Error == "" {
			return fmt.Errorf("ended as %s", ev.Kind())
		}
		if err := c.quiet(); err != nil {
			return err
		}
		if err := c.refused(&msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: id, Field: msp.Stdout, MaxLen: 1}}, msp.CodeUnknownID); err != nil {
			return err
		}
		return c.ack(id)
	})
}
