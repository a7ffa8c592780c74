package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"microvms/agentd/api"
)

// decodeEvent turns a frame into an event. Unknown names and data that is not
// the JSON of its name are dropped (nil, nil); output that is not base64 is an
// error, because dropping it would lose bytes silently.
func decodeEvent(f frame) (Event, error) {
	switch f.event {
	case api.EventOutput:
		if wire, ok := decodeCanonical(f.data); ok {
			return checkOutput(wire)
		}
		var wire api.OutputEvent
		err := json.Unmarshal(f.data, &wire)
		var corrupt base64.CorruptInputError
		if errors.As(err, &corrupt) {
			return nil, protocolError("output event at offset %d: its bytes are not base64", wire.Offset)
		}
		if err != nil || len(wire.Output) == 0 {
			return nil, nil //nolint:nilerr // dropped: see above
		}
		return checkOutput(wire)
	case api.EventGap:
		var wire api.GapEvent
		if json.Unmarshal(f.data, &wire) != nil || wire.From >= wire.To {
			return nil, nil //nolint:nilerr // dropped
		}
		return &Gap{From: wire.From, To: wire.To}, nil
	case api.EventExit:
		var wire api.ExitEvent
		if json.Unmarshal(f.data, &wire) != nil {
			return nil, nil //nolint:nilerr // dropped
		}
		return &Exit{wire}, nil
	}
	return nil, nil
}

// decodeCanonical decodes an output event in the daemon's own spelling. It
// exists for speed only (nothing slows a command down, so a reader that is too
// slow loses bytes); all other spellings go through encoding/json.
func decodeCanonical(data []byte) (wire api.OutputEvent, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"offset":`))
	if !ok {
		return wire, false
	}
	digits, rest, _ := bytes.Cut(rest, []byte(`,"stream":"`))
	kind, rest, _ := bytes.Cut(rest, []byte(`","output":"`))
	encoded, ok := bytes.CutSuffix(rest, []byte(`"}`))
	if !ok || len(encoded) == 0 || len(digits) == 0 || (digits[0] == '0' && len(digits) > 1) || digits[0] == '+' {
		return wire, false
	}
	switch string(kind) {
	case string(api.StreamStdout):
		wire.Stream = api.StreamStdout
	case string(api.StreamStderr):
		wire.Stream = api.StreamStderr
	default:
		return wire, false
	}
	var err error
	if wire.Offset, err = strconv.ParseUint(string(digits), 10, 64); err != nil {
		return wire, false
	}
	wire.Output = make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Decode(wire.Output, encoded)
	wire.Output = wire.Output[:n]
	return wire, err == nil && n > 0
}

// checkOutput refuses an output event that no daemon may send.
func checkOutput(wire api.OutputEvent) (Event, error) {
	if wire.Stream != api.StreamStdout && wire.Stream != api.StreamStderr {
		return nil, protocolError("output event at offset %d: its stream is neither stdout nor stderr", wire.Offset)
	}
	if wire.Offset > math.MaxUint64-uint64(len(wire.Output)) {
		return nil, protocolError("output event at offset %d: its end is past the last offset", wire.Offset)
	}
	return &Output{Offset: wire.Offset, Stream: wire.Stream, Data: wire.Output}, nil
}
