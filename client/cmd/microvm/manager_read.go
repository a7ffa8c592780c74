package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"microvms/agentd/api/msp"
	"microvms/client"
	"microvms/client/manager"
)

// managerArtifactCommand is `microvm manager artifact`.
type managerArtifactCommand struct {
	runArgument
	Field  string  `arg:"" enum:"stdout,stderr,genvm_log" help:"stdout, stderr or genvm_log."`
	Offset uint64  `placeholder:"N" help:"First byte wanted (0)."`
	MaxLen *uint64 `name:"max-len" placeholder:"N" help:"At most this many bytes (the rest)."`
	Output string  `short:"o" placeholder:"FILE" help:"Write to a new file instead of stdout."`
	managerAddress
}

// artifactData is the data of microvm.manager.artifact.
type artifactData struct {
	RunID  string  `json:"runId"`
	Field  string  `json:"field"`
	Total  uint64  `json:"totalLen"`
	Offset uint64  `json:"offset"`
	Bytes  int64   `json:"bytes"`
	Text   *string `json:"text"`  // null with --output
	Lossy  bool    `json:"lossy"` // text stands for bytes that are not UTF-8
}

func (c *managerArtifactCommand) run(ctx context.Context, a *app) (*result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Output == "" {
		if err := a.needOutput(); err != nil {
			return nil, err
		}
	}
	return c.session(ctx, a, func(ctx context.Context, s *manager.Session) (*result, error) {
		id, err := c.id(ctx, s)
		if err != nil {
			return nil, err
		}
		field := msp.Artifact(c.Field)
		// Asked first, so that a run without artifacts leaves no empty file.
		total, _, err := s.ReadArtifact(ctx, id, field, 0, 0)
		if err != nil {
			return nil, &commandError{err: err, data: map[string]any{"runId": id.String()}}
		}
		data := artifactData{RunID: id.String(), Field: c.Field, Total: total, Offset: c.Offset}
		var kept strings.Builder
		to := io.Writer(a.stdout)
		switch {
		case c.Output != "":
			// MCLIENT-37: a file that is there is never written over.
			file, err := os.OpenFile(c.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if err != nil {
				return nil, &client.Error{Kind: client.KindPrecondition, Message: "cannot write the artifact", Err: err}
			}
			defer file.Close()
			to = file
		case a.format.json, a.format.dense:
			to = &kept
		}
		if data.Bytes, err = c.copy(ctx, s, id, to); err != nil {
			return nil, &commandError{err: err, data: map[string]any{"runId": id.String(), "bytes": data.Bytes}}
		}
		res := &result{kind: "microvm.manager.artifact", dense: fmt.Sprintf("%v\t%s\t%d", id, c.Field, data.Bytes)}
		if c.Output != "" {
			res.text = fmt.Sprintf("wrote %d bytes\n", data.Bytes)
		} else if a.format.json {
			text := strings.ToValidUTF8(kept.String(), "\uFFFD")
			data.Text, data.Lossy = &text, !utf8.ValidString(kept.String())
		}
		res.data = data
		return res, nil
	})
}

// copy copies the wanted part of the artifact.
func (c *managerArtifactCommand) copy(ctx context.Context, s *manager.Session, id manager.RunID, to io.Writer) (int64, error) {
	from := io.Reader(s.OpenAt(ctx, id, msp.Artifact(c.Field), c.Offset))
	if c.MaxLen != nil {
		from = io.LimitReader(from, int64(min(*c.MaxLen, 1<<62)))
	}
	return io.Copy(to, from)
}

// managerStatusCommand is `microvm manager status`.
type managerStatusCommand struct {
	managerAddress
}

// The data of microvm.manager.status.
type (
	managerStatusData struct {
		LLM     string             `json:"llmModule"`
		Web     string             `json:"webModule"`
		Permits managerPermitsData `json:"permits"`
		Runs    []managerRunStatus `json:"runs"`
	}
	managerPermitsData struct {
		Free   int `json:"free"`
		Total  int `json:"total"`
		Sync   int `json:"perSyncRun"`
		Nondet int `json:"perNondetRun"`
	}
	managerRunStatus struct {
		Number     uint64  `json:"number"`
		Version    string  `json:"version"`
		StartedAt  *string `json:"startedAt"`
		FinishedAt *string `json:"finishedAt"`
		Deadline   string  `json:"deadline"`
	}
)

func (c *managerStatusCommand) run(ctx context.Context, a *app) (*result, error) {
	address, err := c.address(a)
	if err != nil {
		return nil, err
	}
	ctx, stop := a.untilInterrupt(ctx)
	defer stop()
	status, err := manager.ReadStatus(ctx, address)
	if err != nil {
		return nil, c.advise(err)
	}
	return managerStatus(status), nil
}

func managerStatus(s *manager.Status) *result {
	data := managerStatusData{LLM: s.LLM, Web: s.Web, Permits: managerPermitsData(s.Permits), Runs: []managerRunStatus{}}
	rows := [][]string{{"RUN", "EXECUTOR", "STARTED", "FINISHED", "DEADLINE"}}
	for _, number := range s.Numbers() {
		r := s.Runs[number]
		row := managerRunStatus{Number: number, Version: r.Version, StartedAt: stamp(r.StartedAt), Deadline: r.Deadline.UTC().Format(time.RFC3339)}
		if r.Result != nil {
			row.FinishedAt = stamp(&r.Result.FinishedAt)
		}
		data.Runs = append(data.Runs, row)
		rows = append(rows, []string{strconv.FormatUint(number, 10), orDash(&r.Version), orDash(row.StartedAt), orDash(row.FinishedAt), row.Deadline})
	}
	text := fmt.Sprintf("permits  %d free of %d; a run takes %d, with modules %d\nmodules  llm %s, web %s\nruns     %d\n",
		s.Permits.Free, s.Permits.Total, s.Permits.Sync, s.Permits.Nondet, escape(s.LLM), escape(s.Web), len(data.Runs))
	if len(data.Runs) > 0 {
		text += "\n" + table(rows)
	}
	return &result{kind: "microvm.manager.status", data: data, text: text,
		dense: fmt.Sprintf("permits=%d/%d\tllm=%s\tweb=%s\truns=%d", s.Permits.Free, s.Permits.Total, escape(s.LLM), escape(s.Web), len(data.Runs))}
}

func stamp(t *time.Time) *string {
	if t == nil {
		return nil
	}
	text := t.UTC().Format(time.RFC3339)
	return &text
}

func orDash(text *string) string {
	if text == nil || *text == "" {
		return "-"
	}
	return *text
}
