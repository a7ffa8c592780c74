package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ending is how a stream of events ended.
type ending struct {
	delivered int64 // decoded bytes of output
	lost      int64 // bytes that gap events told of
	events    int64
	exitCode  *int
}

// share of the output that arrived.
func (e ending) share() float64 {
	if e.delivered+e.lost == 0 {
		return 1
	}
	return float64(e.delivered) / float64(e.delivered+e.lost)
}

var errNoExit = errors.New("the stream ended without an exit event")

// readEvents reads server-sent events (wire facts, section 7.3) up to the exit
// event and decodes their output, as the limit program's client does. It fails
// when events do not tile the output. took hears of each decoded piece.
func readEvents(r io.Reader, took func(n int)) (ending, error) {
	var e ending
	in := bufio.NewReaderSize(r, 256<<10)
	out := make([]byte, 64<<10)
	next, event := int64(0), ""
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return e, fmt.Errorf("%w: %w", errNoExit, err)
		}
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(bytes.TrimSuffix(name, []byte("\n")))
			continue
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		e.events++
		switch event {
		case "output":
			offset, n, err := decodeOutput(data, out)
			if err != nil {
				return e, err
			}
			if offset != next {
				return e, fmt.Errorf("an output event starts at %d, the one before ended at %d", offset, next)
			}
			next += int64(n)
			e.delivered += int64(n)
			if took != nil {
				took(n)
			}
		case "gap":
			var gap struct{ From, To int64 }
			if err := json.Unmarshal(data, &gap); err != nil || gap.From != next || gap.To <= gap.From {
				return e, fmt.Errorf("cannot read the gap event %q after %d: %v", data, next, err)
			}
			e.lost += gap.To - gap.From
			next = gap.To
		case "exit":
			var exit struct {
				Offset   int64
				ExitCode *int `json:"exit_code"`
			}
			if err := json.Unmarshal(data, &exit); err != nil || exit.Offset != next {
				return e, fmt.Errorf("cannot read the exit event %q after %d: %v", data, next, err)
			}
			e.exitCode = exit.ExitCode
			// What follows is the end of the body, which lets the connection be kept.
			_, err := io.Copy(io.Discard, in)
			return e, err
		default:
			return e, fmt.Errorf("unknown event %q", event)
		}
	}
}

// decodeOutput reads {"offset":N,"stream":S,"output":"BASE64"} without a JSON
// parser, whose cost would hide what is measured.
func decodeOutput(data, out []byte) (offset int64, n int, err error) {
	const before, between = `{"offset":`, `,"output":"`
	rest, ok := bytes.CutPrefix(data, []byte(before))
	comma := bytes.IndexByte(rest, ',')
	at := bytes.Index(rest[:min(len(rest), 80)], []byte(between))
	if !ok || comma < 0 || at < 0 {
		return 0, 0, fmt.Errorf("cannot read the output event %q", data[:min(len(data), 80)])
	}
	if offset, err = strconv.ParseInt(string(rest[:comma]), 10, 64); err != nil {
		return 0, 0, err
	}
	b64 := bytes.TrimSuffix(rest[at+len(between):], []byte("\"}\n"))
	if base64.StdEncoding.DecodedLen(len(b64)) > len(out) {
		return 0, 0, fmt.Errorf("an output event carries %d characters, more than it may", len(b64))
	}
	n, err = base64.StdEncoding.Decode(out, b64)
	return offset, n, err
}
