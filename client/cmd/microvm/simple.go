package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"microvms/agentd/api"
	"microvms/client"
)

// healthCommand is `microvm health`.
type healthCommand struct {
	attach
}

type healthData struct {
	Version            string  `json:"version"`
	Bootstrapped       bool    `json:"bootstrapped"`
	IdentityDegraded   bool    `json:"identityDegraded"`
	IdentityRepaired   bool    `json:"identityRepaired"`
	DiskAvailableBytes *uint64 `json:"diskAvailableBytes"` // null: could not be measured
	DiskUnderPressure  *bool   `json:"diskUnderPressure"`
	Busy               bool    `json:"busy"`
	Execs              uint    `json:"execs"`
}

func (c *healthCommand) run(ctx context.Context, a *app) (*result, error) {
	return a.call(ctx, c.attach, false, func(ctx context.Context, s *client.Session) (*result, error) {
		h, err := s.Health(ctx)
		if err != nil {
			return nil, err
		}
		return healthResult(h), nil
	})
}

func healthResult(h *api.Health) *result {
	data := healthData{Version: h.Version, Bootstrapped: h.Bootstrapped, IdentityDegraded: h.IdentityDegraded,
		IdentityRepaired: h.IdentityRepaired, Busy: h.Busy, Execs: h.Execs}
	res := &result{kind: "microvm.health"}
	disk := "unknown"
	if h.Disk != nil {
		data.DiskAvailableBytes, data.DiskUnderPressure = &h.Disk.AvailableBytes, &h.Disk.UnderPressure
		disk = strconv.FormatUint(h.Disk.AvailableBytes, 10)
		if h.Disk.UnderPressure {
			res.warnings = append(res.warnings, fmt.Sprintf("disk under pressure: %d bytes left, %d are kept in reserve",
				h.Disk.AvailableBytes, h.Disk.ReserveBytes))
		}
	}
	if h.IdentityDegraded {
		res.warnings = append(res.warnings, "identity degraded: this VM may share ids or keys with its siblings")
	}
	if !h.Bootstrapped {
		// CLI-12: the answer is complete, so it is an envelope of success; yet
		// nothing can be run, so the exit code is not 0.
		res.exit = exitOf(client.KindPlatform)
	}
	res.data = data
	res.text = table([][]string{
		{"version", h.Version}, {"bootstrapped", strconv.FormatBool(h.Bootstrapped)},
		{"identity degraded", strconv.FormatBool(h.IdentityDegraded)}, {"identity repaired", strconv.FormatBool(h.IdentityRepaired)},
		{"disk available bytes", disk}, {"busy", strconv.FormatBool(h.Busy)}, {"execs", strconv.FormatUint(uint64(h.Execs), 10)},
	})
	res.dense = fmt.Sprintf("%s\tbootstrapped=%t\tbusy=%t\texecs=%d", escape(h.Version), h.Bootstrapped, h.Busy, h.Execs)
	return res
}

// killCommand is `microvm kill`.
type killCommand struct {
	ExecID string `arg:"" name:"exec-id" help:"The exec to end."`
	attach
}

func (c *killCommand) run(ctx context.Context, a *app) (*result, error) {
	return a.call(ctx, c.attach, true, func(ctx context.Context, s *client.Session) (*result, error) {
		killed, err := s.Kill(ctx, c.ExecID)
		if err != nil {
			return nil, err
		}
		// CLI-18: a repeat succeeds, so only this tells whether anything was there.
		text := "nothing was left to kill\n"
		if killed {
			text = "killed\n"
		}
		return &result{kind: "microvm.kill", text: text, dense: fmt.Sprintf("%s\t%t", escape(c.ExecID), killed), data: struct {
			ExecID string `json:"execId"`
			Killed bool   `json:"killed"`
		}{c.ExecID, killed}}, nil
	})
}

// psCommand is `microvm ps`.
type psCommand struct {
	attach
}

type procData struct {
	ExecID      string   `json:"execId"`
	Pgid        *uint32  `json:"pgid"`
	StartedAt   uint64   `json:"startedAt"`
	ChildExited bool     `json:"childExited"`
	Reap        bool     `json:"reap"`
	Pids        []uint32 `json:"pids"`
}

func (c *psCommand) run(ctx context.Context, a *app) (*result, error) {
	return a.call(ctx, c.attach, true, func(ctx context.Context, s *client.Session) (*result, error) {
		groups, err := s.Procs(ctx)
		if err != nil {
			return nil, err
		}
		return psResult(groups), nil
	})
}

// psResult sorts by start, because the daemon promises no order.
func psResult(groups []api.ProcGroup) *result {
	slices.SortStableFunc(groups, func(x, y api.ProcGroup) int {
		return cmp.Or(cmp.Compare(x.StartedAt, y.StartedAt), strings.Compare(x.ExecID, y.ExecID))
	})
	procs := make([]procData, 0, len(groups))
	rows := [][]string{{"EXEC", "PGID", "STARTED", "STATE", "PIDS"}}
	var dense []string
	for _, g := range groups {
		p := procData{g.ExecID, g.Pgid, g.StartedAt, g.ChildExited, g.Reap, append([]uint32{}, g.Pids...)}
		procs = append(procs, p)
		pgid, pids := "-", make([]string, len(g.Pids))
		if g.Pgid != nil {
			pgid = strconv.FormatUint(uint64(*g.Pgid), 10)
		}
		for i, pid := range g.Pids {
			pids[i] = strconv.FormatUint(uint64(pid), 10)
		}
		state := "running"
		switch {
		case g.ChildExited && len(g.Pids) > 0:
			// CLI-19: the command has ended and others of its group live on, which
			// no exit code shows.
			state = "survivors"
		case g.ChildExited:
			state = "exited"
		}
		started := time.Unix(int64(min(g.StartedAt, 1<<40)), 0).UTC().Format(time.RFC3339)
		rows = append(rows, []string{g.ExecID, pgid, started, state, strings.Join(pids, " ")})
		dense = append(dense, strings.Join([]string{escape(g.ExecID), pgid, state, strings.Join(pids, ",")}, "\t"))
	}
	return &result{kind: "microvm.ps", text: table(rows), dense: strings.Join(dense, "\n"), data: struct {
		Procs []procData `json:"procs"`
	}{procs}}
}

// stdinCommand is `microvm stdin`.
type stdinCommand struct {
	ExecID string  `arg:"" name:"exec-id" help:"The exec to write to, started with microvm exec --detach --open-stdin."`
	Data   *string `placeholder:"TEXT" help:"What to write, as it is: a newline is yours to add; - writes this command's own input."`
	EOF    bool    `name:"eof" help:"Close the input after that, or alone."`
	attach
}

func (c *stdinCommand) run(ctx context.Context, a *app) (*result, error) {
	data, err := c.bytes(ctx, a)
	if err != nil {
		return nil, err
	}
	// CLI-13: before a session is opened, because it is a mistake in the call.
	if len(data) == 0 && !c.EOF {
		return nil, usage("nothing to do: give --data with at least one byte, or --eof")
	}
	return a.call(ctx, c.attach, true, func(ctx context.Context, s *client.Session) (*result, error) {
		written := 0
		for first := true; first || len(data) > 0; first = false {
			n := min(len(data), client.StdinChunkBytes)
			last := n == len(data)
			w, err := s.WriteStdin(ctx, c.ExecID, data[:n], c.EOF && last)
			if err != nil {
				return nil, &commandError{err: err, data: map[string]any{"execId": c.ExecID, "written": written}}
			}
			written += w
			data = data[n:]
		}
		return &result{kind: "microvm.stdin", text: fmt.Sprintf("wrote %d bytes\n", written),
			dense: fmt.Sprintf("%s\t%d\t%t", escape(c.ExecID), written, c.EOF), data: struct {
				ExecID  string `json:"execId"`
				Written int    `json:"written"`
				EOF     bool   `json:"eof"`
			}{c.ExecID, written, c.EOF}}, nil
	})
}

// bytes is what --data asks to write; stdin is read only when it says so.
func (c *stdinCommand) bytes(ctx context.Context, a *app) ([]byte, error) {
	switch {
	case c.Data == nil:
		return nil, nil
	case *c.Data == "-":
		return a.readStdin(ctx)
	}
	return []byte(*c.Data), nil
}
