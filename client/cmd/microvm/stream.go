package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"microvms/agentd/api"
	"microvms/client"
)

// streamData is the data of microvm.exec.stream.
type streamData struct {
	ExecID     string `json:"execId"`
	Events     int    `json:"events"`
	Bytes      uint64 `json:"bytes"`
	NextOffset uint64 `json:"nextOffset"`
	ExitCode   *int32 `json:"exitCode"` // null: by a signal, or unknown
	Truncated  bool   `json:"truncated"`
	Gaps       int    `json:"gaps"`
}

// The JSON lines of a stream.
type (
	outputLine struct {
		Event  string         `json:"event"`
		Stream api.StreamKind `json:"stream"`
		Offset uint64         `json:"offset"`
		Bytes  int            `json:"bytes"`
		Text   string         `json:"text"`
		Lossy  bool           `json:"lossy"` // text stands for bytes that are not UTF-8
	}
	gapLine struct {
		Event string `json:"event"`
		From  uint64 `json:"from"`
		To    uint64 `json:"to"`
	}
	exitLine struct {
		Event             string `json:"event"`
		ExitCode          *int32 `json:"exitCode"`
		Signal            *int32 `json:"signal"`
		TimedOut          bool   `json:"timedOut"`
		Truncated         bool   `json:"truncated"`
		WritersMayBeAlive bool   `json:"writersMayBeAlive"`
		Offset            uint64 `json:"offset"`
	}
)

// stream prints an exec's output as it comes: under JSON one line an event,
// else the bytes as they are. After the exit event it acks.
func (c *execCommand) stream(ctx context.Context, a *app, s *client.Session, id string) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	var from uint64
	if c.FromOffset != nil {
		from = *c.FromOffset
	}
	st := s.Stream(ctx, id, client.StreamOptions{Offset: from})
	data := streamData{ExecID: id, NextOffset: from}
	var exit *client.Exit
	for ev, err := range st.All() {
		if err != nil {
			return nil, err
		}
		data.Events++
		exit = a.show(ev, &data)
		data.NextOffset = st.Cursor()
		// CLI-9: judged after each event, because nobody reads what follows;
		// the exec is left running and named on stderr.
		if a.stdout.broken() && exit == nil {
			failure := a.stdout.failure()
			if !a.stdout.left() && !errors.Is(failure, client.ErrInterrupted) {
				return nil, &client.Error{Kind: client.KindPrecondition,
					Message: fmt.Sprintf("cannot write the output; exec %s goes on", id), Err: failure}
			}
			return nil, &client.Error{Kind: client.KindInterrupted,
				Message: fmt.Sprintf("the reader of stdout left; exec %s goes on", id), Err: failure}
		}
	}
	// CLI-15: compact, because the envelope is one more line of the stream.
	res := &result{kind: "microvm.exec.stream", compact: true}
	if exit != nil {
		data.ExitCode, data.Truncated = exit.ExitCode, exit.Truncated
		res.warnings = outcomeWarnings(id, false, exit.TimedOut, exit.WritersMayBeAlive)
		if _, err := s.Ack(ctx, id); err != nil {
			res.warnings = append(res.warnings, fmt.Sprintf("the result of %s was not acked: %v", id, err))
		}
	}
	res.data, res.exit = data, c.streamExit(id, exit)
	if data.Gaps > 0 && res.exit == 0 {
		// CLI-24: code 0 is only for a complete stream.
		return nil, &client.Error{Kind: client.KindPlatform, Wire: client.WireOutputGap,
			Message: fmt.Sprintf("exec %s exited 0, but %d ranges of its output were lost", id, data.Gaps)}
	}
	return res, nil
}

// streamExit is the exit code for what the exit event says, nil for a cut.
func (c *execCommand) streamExit(id string, exit *client.Exit) int {
	if exit == nil {
		return exitOf(client.KindExecFailed)
	}
	rec := &client.Result{PollResponse: api.PollResponse{ExecID: id, Phase: api.PhaseExited,
		Outcome: &api.Outcome{ExitCode: exit.ExitCode, Signal: exit.Signal, TimedOut: exit.TimedOut}}}
	return c.exitCode(rec.Succeeded(), rec.POSIXCode())
}

// show prints one event and counts it; it returns the exit event.
func (a *app) show(ev client.Event, data *streamData) *client.Exit {
	line := any(nil)
	switch ev := ev.(type) {
	case *client.Output:
		data.Bytes += uint64(len(ev.Data))
		if !a.format.json {
			w := a.stdout
			if ev.Stream == api.StreamStderr {
				w = a.stderr
			}
			w.Write(ev.Data)
			return nil
		}
		line = outputLine{"output", ev.Stream, ev.Offset, len(ev.Data), strings.ToValidUTF8(string(ev.Data), "\uFFFD"), !utf8.Valid(ev.Data)}
	case *client.Gap:
		data.Gaps++
		fmt.Fprintf(a.stderr, "warning: output bytes [%d, %d) were lost\n", ev.From, ev.To)
		line = gapLine{"gap", ev.From, ev.To}
	case *client.Exit:
		if a.format.json {
			a.stdout.Write(encode(exitLine{"exit", ev.ExitCode, ev.Signal, ev.TimedOut, ev.Truncated, ev.WritersMayBeAlive, ev.Offset}, true))
		}
		return ev
	}
	if a.format.json {
		a.stdout.Write(encode(line, true))
	}
	return nil
}
