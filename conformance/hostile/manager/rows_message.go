package manager

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// raw is a message whose payload is any bytes.
func raw(method msp.Method, request uint64, payload []byte) []byte {
	b, err := msp.Message(msp.Header{Method: method, Request: request}, calldata.Raw(nil))
	if err != nil {
		panic("hostile: internal error: " + err.Error())
	}
	return append(b[:msp.HeaderBytes], payload...)
}

func octets(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic("hostile: internal error: " + err.Error())
	}
	return b
}

// malformed are the values of manager facts, section 1.5, that are none.
var malformed = []string{
	"", "80", "8000", "818000", "07", "0f", "20", "28", "8002", "18" + "00000000000000000000000000000000000000", "1b0102", "2c68", "0cff",
	"14c080", "1ceda080", "24f5808080", "0d", "858080808001", "fdffffff7f", "0e01", "0e0161", "0e01ff00", "0e81006100",
	"16016200016100", "16016100016100", "01ff", "0000",
}

func messageRows() []Row {
	return []Row{{
		ID: "W5", Name: "messages that are short, unknown, without an id, doubled, undecodable, text or too long",
		Expect: "the error that the facts name, on a connection that lives; too long: dropped without a close frame",
		Requirements: []string{
			"SOCKET-7", "SOCKET-8", "SOCKET-9", "SOCKET-10", "SOCKET-11", "SOCKET-12", "SOCKET-15", "SOCKET-19", "SOCKET-29", "SOCKET-30",
			"CALLDATA-1", "CALLDATA-3", "CALLDATA-7", "CALLDATA-12", "CALLDATA-16", "CALLDATA-18",
		},
		// The largest messages, each twice while it grows, and what the collector has not taken yet.
		Ceiling: func(k Knobs) int64 { return 6*k.MaxMessage + 128<<20 },
		Cases: []Case{
			{"0 to 9 bytes", with(short)},
			{"unknown methods", with(unknownMethods)},
			{"request id 0", with(zeroIDs)},
			{"methods of the manager", with(managerMethods)},
			{"one id twice in flight", with(twiceInFlight)},
			{"payloads that are no calldata", with(undecodable)},
			{"tags that disagree with the header", with(otherTags)},
			{"text", with(text)},
			{"a secret in a refused payload", with(secret)},
			{"exactly the limit", withMax(exactly)},
			{"the limit and 1", withMax(func(c *peer, max int64) error { return oversize(c, final|opBinary, max+1, true) })},
			{"text over the limit", withMax(func(c *peer, max int64) error { return oversize(c, final|opText, max+1, true) })},
			{"the limit and 1 announced", withMax(func(c *peer, max int64) error { return oversize(c, final|opBinary, max+1, false) })},
			{"2^63-1 announced", with(func(c *peer) error { return oversize(c, final|opBinary, math.MaxInt64, false) })},
			{"2^63-1 announced by a fragment", with(func(c *peer) error { return oversize(c, opBinary, math.MaxInt64, false) })},
			{"fragments that exceed the limit together", withMax(fragments)},
		},
	}}
}

func short(c *peer) error {
	whole := raw(msp.MethodRun, 77, nil)
	for n := range msp.HeaderBytes {
		if err := c.say(whole[:n]); err != nil {
			return err
		}
		if err := c.fails(0, msp.CodeMalformedFrame); err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
	}
	return c.serves()
}

func unknownMethods(c *peer) error {
	for _, m := range []msp.Method{8, 9, 255, 256, 768, 65535} { // 768: 3 with its bytes swapped
		for _, id := range []uint64{5, 0, math.MaxUint64} {
			if err := c.say(raw(m, id, octets("07"))); err != nil {
				return err
			}
			if err := c.fails(id, msp.CodeUnknownMethod); err != nil {
				return fmt.Errorf("method %d of request %d: %w", uint16(m), id, err)
			}
		}
	}
	return c.serves()
}

func zeroIDs(c *peer) error {
	for m := range msp.Method(8) {
		if err := c.say(raw(m, 0, octets("06"))); err != nil {
			return err
		}
		if err := c.fails(0, msp.CodeBadRequestID); err != nil {
			return fmt.Errorf("method %d: %w", uint16(m), err)
		}
	}
	return c.serves()
}

func managerMethods(c *peer) error {
	for _, m := range []msp.Method{msp.MethodError, msp.MethodHello, msp.MethodEvent} {
		if err := c.say(raw(m, 9, octets("06"))); err != nil {
			return err
		}
		if err := c.fails(9, msp.CodeUnknownMethod); err != nil {
			return fmt.Errorf("method %d: %w", uint16(m), err)
		}
	}
	return c.serves()
}

// twiceInFlight sends one id twice in one write: each is served, and each is
// answered.
func twiceInFlight(c *peer) error {
	r := msp.Request{Run: run("stdout=x")}
	b, err := r.Message(4)
	if err != nil {
		return err
	}
	one := append(head(final|opBinary, uint64(len(b))), b...)
	if _, err := c.Write(append(one, one...)); err != nil {
		return err
	}
	seen := map[uint64]bool{}
	for range 2 {
		h, payload, err := c.reply()
		var reply msp.RunReply
		if err == nil {
			err = calldata.Unmarshal(payload, &reply)
		}
		if err != nil || h != (msp.Header{Method: msp.MethodRun, Request: 4}) || seen[reply.GenvmID] {
			return fmt.Errorf("answered %+v with run %d: %v", h, reply.GenvmID, err)
		}
		seen[reply.GenvmID] = true
	}
	for id := range seen {
		if err := c.ended1(id); err != nil {
			return err
		}
	}
	return c.serves()
}

// ended1 fails unless the run's one terminal event comes.
func (c *peer) ended1(id uint64) error {
	kept := c.events
	for i, ev := range kept {
		if ev.GenvmID() == id && ev.Terminal() {
			c.events = append(kept[:i:i], kept[i+1:]...)
			return nil
		}
	}
	for {
		h, payload, err := c.message()
		if err != nil || h.Method != msp.MethodEvent {
			return fmt.Errorf("run %d did not end: a %v came: %v", id, h.Method, err)
		}
		ev := new(msp.Event)
		if err := calldata.Unmarshal(payload, ev); err != nil {
			return err
		}
		if ev.Terminal() && ev.GenvmID() == id {
			return nil
		}
		c.events = append(c.events, ev)
	}
}

func undecodable(c *peer) error {
	for m := msp.MethodRun; m <= msp.MethodGetArtifact; m++ {
		for i, text := range malformed {
			id := uint64(100 + i)
			if err := c.say(raw(m, id, octets(text))); err != nil {
				return err
			}
			if err := c.fails(id, msp.CodeMalformedFrame); err != nil {
				return fmt.Errorf("%v with %s: %w", m, text, err)
			}
		}
	}
	return c.serves()
}

func otherTags(c *peer) error {
	ack := msp.Request{Ack: &msp.Target{GenvmID: 1}}
	b, err := ack.Message(6)
	if err != nil {
		return err
	}
	for _, m := range []msp.Method{msp.MethodRun, msp.MethodAttach, msp.MethodCancel, msp.MethodGetArtifact} {
		if err := c.say(raw(m, 6, b[msp.HeaderBytes:])); err != nil {
			return err
		}
		if err := c.fails(6, msp.CodeMalformedFrame); err != nil {
			return fmt.Errorf("%v: %w", m, err)
		}
	}
	return c.serves()
}

func text(c *peer) error {
	ack := msp.Request{Ack: &msp.Target{GenvmID: 1}}
	b, err := ack.Message(6)
	if err != nil {
		return err
	}
	for _, payload := range [][]byte{nil, []byte("hello"), b, []byte("\xff\xfe")} {
		if err := c.frame(final|opText, payload); err != nil {
			return err
		}
		if err := c.fails(0, msp.CodeMalformedFrame); err != nil {
			return fmt.Errorf("%d bytes of text: %w", len(payload), err)
		}
	}
	return c.serves()
}

// exactly sends a message of the limit's size, which is judged by what it says.
func exactly(c *peer, max int64) error {
	if err := c.say(raw(msp.MethodRun, 3, make([]byte, max-msp.HeaderBytes))); err != nil {
		return err
	}
	if err := c.fails(3, msp.CodeMalformedFrame); err != nil {
		return err
	}
	return c.serves()
}

// oversize announces n bytes of payload and sends them or not: the connection is
// dropped either way.
func oversize(c *peer, first byte, n int64, send bool) error {
	if _, err := c.Write(head(first, uint64(n))); err != nil {
		return err
	}
	if send {
		go func() { _, _ = io.CopyN(c, zero{}, n) }() // ends with the connection
	}
	return c.dropped()
}

// zero gives zeros without end.
type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func fragments(c *peer, max int64) error {
	if err := c.frame(opBinary, make([]byte, max/2)); err != nil {
		return err
	}
	if err := c.frame(opContinuation, make([]byte, max/2)); err != nil {
		return err
	}
	return oversize(c, final|opContinuation, max-max/2*2+1, false)
}

// secret puts a word into refused payloads, which no error may repeat.
func secret(c *peer) error {
	const word = "hunter2-is-the-secret"
	value := append(number(nil, uint64(len(word)), tagString), word...)
	for _, field := range []string{"is_sync", "bucket_totals", "debug_mode", "deadline", "timestamp", "calldata", "message.value", "selector"} {
		b, err := runWith(8, field, value)
		if err == nil {
			err = c.say(b)
		}
		if err != nil {
			return err
		}
		_, payload, err := c.reply()
		if err != nil {
			return err
		}
		if bytes.Contains(payload, []byte(word)) {
			return fmt.Errorf("field %s: the error repeats the value: %.200q", field, payload)
		}
	}
	return c.serves()
}
