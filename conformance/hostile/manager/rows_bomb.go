package manager

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// number appends r with a tag in ULEB128 (manager facts, section 1.1).
func number(b []byte, r uint64, tag byte) []byte {
	n := r<<3 | uint64(tag) // the bombs' arguments fit
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// The tags of manager facts, section 1.1.
const (
	tagBytes, tagString, tagArray, tagMap = 3, 4, 5, 6
)

// many is an array of n times element, which is encoded.
func many(n int64, element string) []byte {
	return append(number(nil, uint64(n), tagArray), bytes.Repeat([]byte(element), int(n))...)
}

// integer is a non-negative integer whose encoding takes n bytes.
func integer(n int64) []byte {
	b := bytes.Repeat([]byte{0xff}, int(n))
	b[0], b[n-1] = 0xf9, 0x7f
	return b
}

// runWith is a run request in which one field holds raw bytes, well-formed or
// not; "message.value" names a field of the message.
func runWith(request uint64, field string, value []byte) ([]byte, error) {
	r := msp.Request{Run: run("stdout=x")}
	b, err := r.Message(request)
	if err != nil {
		return nil, err
	}
	var fields struct {
		Run map[string]calldata.Raw `calldata:"run"`
	}
	if err := calldata.Unmarshal(b[msp.HeaderBytes:], &fields); err != nil {
		return nil, err
	}
	if inner, ok := strings.CutPrefix(field, "message."); ok {
		var message map[string]calldata.Raw
		if err := calldata.Unmarshal(fields.Run["message"], &message); err != nil {
			return nil, err
		}
		message[inner] = value
		fields.Run["message"] = join(message)
	} else {
		fields.Run[field] = value
	}
	return append(b[:msp.HeaderBytes:msp.HeaderBytes], join(map[string]calldata.Raw{"run": join(fields.Run)})...), nil
}

// join encodes a map whose values are encoded already, or broken.
func join(entries map[string]calldata.Raw) calldata.Raw {
	out := number(nil, uint64(len(entries)), tagMap)
	for _, k := range slices.SortedFunc(maps.Keys(entries), cmp.Compare[string]) {
		value := entries[k]
		if len(value) == 0 {
			value = calldata.Raw{0} // how null was read
		}
		out = append(append(key128(out, uint64(len(k))), k...), value...)
	}
	return out
}

// key128 appends the length of a key, which has no tag.
func key128(b []byte, n uint64) []byte {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func bombRows() []Row {
	deep := func(n int64) []byte { return bytes.Repeat([]byte{0x0d}, int(n)) }
	refusedAs := func(field string, value func(room int64) []byte) func(context.Context, *probe) error {
		return withMax(func(c *peer, max int64) error {
			b, err := runWith(8, field, value(max-4096))
			if err == nil {
				err = c.say(b)
			}
			if err == nil {
				err = c.fails(8, msp.CodeMalformedFrame)
			}
			if err != nil {
				return err
			}
			return c.serves()
		})
	}
	fixed := func(text string) func(int64) []byte { return func(int64) []byte { return octets(text) } }
	return []Row{{
		ID: "M1", Name: "calldata bombs",
		Expect:       "malformed_frame in time linear in the message and without memory for what is not there; a value of any size that is allowed is handed on",
		Requirements: []string{"CALLDATA-2", "CALLDATA-4", "CALLDATA-5", "CALLDATA-6", "CALLDATA-9", "CALLDATA-17", "CALLDATA-21", "SOCKET-15", "SOCKET-29", "EXECUTOR-1", "EXECUTOR-15"},
		Ceiling:      func(k Knobs) int64 { return 10*k.MaxMessage + 128<<20 },
		Cases: []Case{
			{"the request around the bombs, with a good value", with(around)},
			{"129 arrays in one another", refusedAs("bucket_totals", func(int64) []byte { return append(deep(128), 5) })},
			{"fees in one another, as deep as may be", with(deepFees)},
			{"fees in one another, one deeper", refusedAs("message_fee_allocation", func(int64) []byte { return fees(mostFees + 1) })},
			{"fees in one another to the limit", refusedAs("message_fee_allocation", func(room int64) []byte { return fees(int(min(room/200, 100_000))) })},
			{"arrays in one another to the limit", refusedAs("bucket_totals", deep)},
			{"the same in an unknown field", refusedAs("zzz", deep)},
			{"2^32-1 elements and none there", refusedAs("bucket_totals", fixed("fdffffff7f"))},
			{"2^32-1 entries and none there", refusedAs("gas_data", fixed("feffffff7f"))},
			{"2^32-1 bytes and none there", refusedAs("calldata", fixed("fbffffff7f"))},
			{"2^32-1 bytes of text and none there", refusedAs("host", fixed("fcffffff7f"))},
			{"a key of 2^32-1 bytes and none there", refusedAs("gas_data", fixed("0effffffff0f"))},
			{"a number without an end", refusedAs("bucket_totals", func(n int64) []byte { return bytes.Repeat([]byte{0x80}, int(n)) })},
			{"an integer of the limit's size in an unknown field", refusedAs("zzz", integer)},
			{"an integer of the limit's size where 32 bits fit", refusedAs("initial_time_units_allocation", integer)},
			{"a run id of the limit's size", withMax(wideID)},
			{"a greeting for the manager's own connection", refusedAs("host_hello_data", fixed("15030b00"))},
			{"keys that fall", refusedAs("gas_data", fixed("160162040161"+"04"))},
			{"one key twice", refusedAs("gas_data", fixed("160161040161"+"04"))},
			{"an integer of the limit's size where any fits", withMax(wideValue)},
			{"a depth bomb in the contract's calldata", withMax(innerBomb(func(n int64) []byte { return append(deep(200), 5) }, true))},
			{"2^32-1 elements in the contract's calldata", withMax(innerBomb(func(int64) []byte { return octets("fdffffff7f") }, true))},
			{"arrays to the limit in the contract's calldata", withMax(innerBomb(deep, false))},
			{"a map of arrays to the limit in the contract's calldata", withMax(innerBomb(func(n int64) []byte {
				return join(map[string]calldata.Raw{"a": deep(n - 16)})
			}, false))},
			{"an integer of the limit's size in the contract's calldata", withMax(innerBomb(integer, false))},
		},
	}, {
		ID: "M2", Name: "messages whose values take many times their bytes",
		Expect:       "handed on, or malformed_frame ahead of the memory for them; what they took is given back",
		Requirements: []string{"CALLDATA-24", "EXECUTOR-17", "SOCKET-15"},
		Ceiling:      func(k Knobs) int64 { return 12*k.MaxMessage + 64<<20 },
		Cases: []Case{
			{"integers of one byte", refusedAs("bucket_totals", func(room int64) []byte { return many(room, "\x01") })},
			{"results of no byte", refusedAs("leader_nondet_results", func(room int64) []byte { return many(room, "\x03") })},
			{"greetings of no byte", refusedAs("host_hello_data", func(room int64) []byte { return many(room, "\x03") })},
			{"arguments of no byte", refusedAs("extra_args", func(room int64) []byte { return many(room, "\x04") })},
			{"gas of short names", refusedAs("gas_data", shortNames)},
			{"as many integers as may be", amplify("bucket_totals", "\x01", func(int64) int64 { return 65_000 }, 0)},
			{"as many arguments as may be", amplify("extra_args", "\x04", func(int64) int64 { return 65_000 }, 9)},
			{"short results to the limit", amplify("leader_nondet_results", "\x63twelve bytes", func(room int64) int64 { return room / 13 }, 0)},
			{"short arguments to the limit", amplify("extra_args", "\x74fourteen bytes", func(room int64) int64 { return room / 15 }, 23)},
		},
	}}
}

// mostFees is how deep fees may nest: the request and the field take three
// levels, each but the last fee two, and that one three, of 128.
const mostFees = 62

// fees are n nodes in one another.
func fees(n int) []byte {
	params := join(map[string]calldata.Raw{"External": join(map[string]calldata.Raw{"gas_limit": {1}, "max_gas_price": {1}})})
	node := join(map[string]calldata.Raw{
		"budget": {1}, "call_key": {0}, "children": []byte("?"), "fee_params": params, "on": append(number(nil, 8, tagString), "accepted"...), "recipient": {0},
	})
	before, after, _ := bytes.Cut(node, []byte("?"))
	out := bytes.Repeat(append([]byte{1<<3 | tagArray}, before...), n)
	return append(append(out, tagArray), bytes.Repeat(after, n)...)
}

// deepFees nests as deep as may be, which is served.
func deepFees(c *peer) error {
	b, err := runWith(8, "message_fee_allocation", fees(mostFees))
	if err != nil {
		return err
	}
	id, err := c.saidRun(b)
	if err != nil {
		return err
	}
	if ev, err := c.finish(id); err != nil || ev.Finished == nil {
		return fmt.Errorf("ended as %s: %v", ev.Kind(), err)
	}
	return c.ack(id)
}

// around shows that the bombs are refused for themselves: the request around them
// is served.
func around(c *peer) error {
	b, err := runWith(8, "bucket_totals", octets("1d091119"))
	if err != nil {
		return err
	}
	id, err := c.saidRun(b)
	if err != nil {
		return err
	}
	if ev, err := c.finish(id); err != nil || ev.Finished == nil {
		return fmt.Errorf("ended as %s: %v", ev.Kind(), err)
	}
	return c.ack(id)
}

func wideID(c *peer, max int64) error {
	payload := join(map[string]calldata.Raw{"cancel": join(map[string]calldata.Raw{"genvm_id": integer(max - 4096)})})
	if err := c.say(raw(msp.MethodCancel, 8, payload)); err != nil {
		return err
	}
	if err := c.fails(8, msp.CodeMalformedFrame); err != nil {
		return err
	}
	return c.serves()
}

// saidRun sends a made run request and returns the run's id.
func (c *peer) saidRun(message []byte) (uint64, error) {
	if err := c.say(message); err != nil {
		return 0, err
	}
	h, payload, err := c.reply()
	var reply msp.RunReply
	if err == nil {
		err = calldata.Unmarshal(payload, &reply)
	}
	if err != nil || h.Method != msp.MethodRun {
		return 0, fmt.Errorf("answered %v with %.120q: %v", h.Method, payload, err)
	}
	return reply.GenvmID, nil
}

// wideValue has an integer of the limit's size handed to the executor, which
// reads its input to the end.
func wideValue(c *peer, max int64) error {
	b, err := runWith(8, "message.value", integer(max-4096))
	if err != nil {
		return err
	}
	id, err := c.saidRun(b)
	if err != nil {
		return err
	}
	ev, err := c.finish(id)
	if err != nil {
		return err
	}
	if f := ev.Finished; f == nil || f.ExitCode == nil || *f.ExitCode != 0 {
		return fmt.Errorf("ended as %s: %+v", ev.Kind(), f)
	}
	return c.ack(id)
}

// innerBomb runs with broken calldata of the contract, which is the executor's
// to judge: it is handed on as it is.
func innerBomb(bomb func(n int64) []byte, look bool) func(c *peer, max int64) error {
	return func(c *peer, max int64) error {
		r := run("stdin=print")
		if !look {
			r.ExtraArgs = []string{"stdout=x"}
		}
		r.Calldata = bomb(max - 4096)
		f, err := c.whole(r)
		if err != nil {
			return err
		}
		_, data, err := c.page(f.GenvmID, msp.Stdout, 0)
		if err == nil && look && !strings.Contains(string(data), hex.EncodeToString(r.Calldata)) {
			err = fmt.Errorf("the calldata did not arrive in %.200q", data)
		}
		if err != nil {
			return err
		}
		return c.ack(f.GenvmID)
	}
}

// maxArguments is what the kernel takes of arguments and their pointers on a
// machine with the usual limit of a stack (execve(2)).
const maxArguments = 6 << 20

// amplify runs with a field of as many elements as it may have. Each is an
// argument of that many bytes with its pointer; 0: it is none.
func amplify(field, element string, count func(room int64) int64, argument int64) func(context.Context, *probe) error {
	return withMax(func(c *peer, max int64) error {
		n := count(max - 4096)
		b, err := runWith(8, field, many(n, element))
		if err != nil {
			return err
		}
		id, err := c.saidRun(b)
		if err != nil {
			return err
		}
		ev, err := c.finish(id)
		if err != nil {
			return err
		}
		if (ev.Finished != nil) != (argument*n < maxArguments) {
			return fmt.Errorf("ended as %s", ev.Kind())
		}
		return c.ack(id)
	})
}

// shortNames is a map of entries with names of four octets and empty values.
func shortNames(room int64) []byte {
	n := min(room/6, 1<<24)
	b := number(nil, uint64(n), tagMap)
	for i := range n {
		// Seven bits each make text, in the order of the numbers.
		b = append(b, 4, byte(i>>21)&0x7f, byte(i>>14)&0x7f, byte(i>>7)&0x7f, byte(i)&0x7f, tagString)
	}
	return b
}
