package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coder/websocket"
)

// The manager is spoken to with a hand-made request and a look at the first
// octets of what comes, so that neither this repository's codec nor its client is
// in the figures (manager facts, sections 1 and 2).

// The methods of the protocol.
const (
	methodError    = 0
	methodHello    = 1
	methodEvent    = 2
	methodRun      = 3
	methodCancel   = 5
	methodAck      = 6
	methodArtifact = 7
)

// uleb appends n in ULEB128.
func uleb(b []byte, n uint64) []byte {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func encodedInt(n uint64) string    { return string(uleb(nil, n<<3|1)) }
func encodedBytes(s string) string  { return string(uleb(nil, uint64(len(s))<<3|3)) + s }
func encodedString(s string) string { return string(uleb(nil, uint64(len(s))<<3|4)) + s }

const (
	encodedNull  = "\x00"
	encodedFalse = "\x08"
	encodedTrue  = "\x10"
	encodedEmpty = "\x05" // an array
)

// encodedMap encodes a map whose values are encoded.
func encodedMap(entries map[string]string) string {
	keys := make([]string, 0, len(entries))
	for k := range entries {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := string(uleb(nil, uint64(len(keys))<<3|6))
	for _, k := range keys {
		out += string(uleb(nil, uint64(len(k)))) + k + entries[k]
	}
	return out
}

// runPayload asks for a run of an executor, with its output kept.
func runPayload(executor string) string {
	address := "\x18" + strings.Repeat("\x00", 20)
	return encodedMap(map[string]string{"run": encodedMap(map[string]string{
		"selector": encodedMap(map[string]string{"kind": encodedString("version"), "version": encodedString(executor)}),
		"message": encodedMap(map[string]string{
			"contract_address": address, "sender_address": address, "origin_address": address, "signer_address": address,
			"chain_id": encodedInt(1), "value": encodedInt(0), "is_init": encodedFalse,
		}),
		"is_sync": encodedTrue, "debug_mode": encodedString("safe"), "bucket_totals": encodedEmpty, "host_data": encodedString("{}"),
		"timestamp": encodedString("2026-01-01T00:00:00Z"), "host": encodedString("unix:///nowhere"), "calldata": encodedBytes("\x00"),
		"code": encodedNull, "leader_nondet_results": encodedNull, "initial_time_units_allocation": encodedInt(0),
	})})
}

func targetPayload(method string, run uint64) string {
	return encodedMap(map[string]string{method: encodedMap(map[string]string{"genvm_id": encodedInt(run)})})
}

func pagePayload(run, offset, length uint64) string {
	return encodedMap(map[string]string{"get_artifact": encodedMap(map[string]string{
		"genvm_id": encodedInt(run), "field": encodedString("stdout"), "offset": encodedInt(offset), "max_len": encodedInt(length),
	})})
}

// managerConn is a connection to a manager.
type managerConn struct {
	ws *websocket.Conn
	id uint64 // of the newest request
}

func dialManager(ctx context.Context, addr string) (*managerConn, error) {
	ws, _, err := websocket.Dial(ctx, "ws://"+addr+"/ws", nil)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	c := &managerConn{ws: ws}
	if method, _, err := c.read(ctx); err != nil || method != methodHello {
		ws.CloseNow()
		return nil, fmt.Errorf("the manager did not say hello: %v", err)
	}
	return c, nil
}

func (c *managerConn) close() { c.ws.CloseNow() }

func (c *managerConn) send(ctx context.Context, method uint16, payload string) error {
	c.id++
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(nil, method), c.id)
	return c.ws.Write(ctx, websocket.MessageBinary, append(b, payload...))
}

// read reads one message.
func (c *managerConn) read(ctx context.Context) (method uint16, payload []byte, err error) {
	_, b, err := c.ws.Read(ctx)
	if err == nil && len(b) < 10 {
		err = errors.New("a message is shorter than its header")
	}
	if err != nil {
		return 0, nil, err
	}
	return binary.BigEndian.Uint16(b), b[10:], nil
}

// begins reports whether a payload is a map of one entry with that key.
func begins(payload []byte, key string) bool {
	return strings.HasPrefix(string(payload), "\x0e"+string(rune(len(key)))+key)
}

// runID reads the reply to a run request.
func runID(payload []byte) (uint64, error) {
	const key = "genvm_id"
	if !begins(payload, key) {
		return 0, fmt.Errorf("the reply to a run request is %q", payload)
	}
	n, shift := uint64(0), 0
	for _, b := range payload[2+len(key):] {
		n |= uint64(b&0x7f) << shift
		shift += 7
	}
	return n >> 3, nil
}

// run starts a run and reads to its terminal event, which must be finished with
// code 0. It passes over the replies to acks.
func (c *managerConn) run(ctx context.Context, payload string) (id uint64, err error) {
	if err := c.send(ctx, methodRun, payload); err != nil {
		return 0, err
	}
	for {
		method, payload, err := c.read(ctx)
		if err != nil {
			return 0, err
		}
		switch {
		case method == methodRun:
			if id, err = runID(payload); err != nil {
				return 0, err
			}
		case method == methodAck || method == methodEvent && begins(payload, "started"):
		case method == methodEvent && begins(payload, "finished") && id != 0 && strings.Contains(string(payload), "exit_code\x01"):
			return id, nil
		default:
			return 0, fmt.Errorf("message %d came for run %d: %.200q", method, id, payload)
		}
	}
}

// ack releases a run and does not wait for the reply.
func (c *managerConn) ack(ctx context.Context, run uint64) error {
	return c.send(ctx, methodAck, targetPayload("ack", run))
}

// next reads a message that must be of that method.
func (c *managerConn) next(ctx context.Context, want uint16) ([]byte, error) {
	method, payload, err := c.read(ctx)
	if err == nil && method != want {
		err = fmt.Errorf("message %d came, not %d: %.200q", method, want, payload)
	}
	return payload, err
}
