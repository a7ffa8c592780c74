package tunnel

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// session is a recorded session of the vector's keys: every message, in order.
type session struct{ hello, reply, ready, up1, up2, upEnd, down1, down2, downEnd []byte }

func record(t testing.TB) session {
	t.Helper()
	client, daemon, hello, reply := pair(t, true, true)
	seal := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return session{
		hello: hello, reply: reply, ready: seal(client.SealReady(nil)),
		up1: seal(client.Seal(nil, []byte("first"))), up2: seal(client.Seal(nil, []byte("second"))), upEnd: seal(client.SealEnd(nil)),
		down1: seal(daemon.Seal(nil, []byte("FIRST"))), down2: seal(daemon.Seal(nil, []byte("SECOND"))), downEnd: seal(daemon.SealEnd(nil)),
	}
}

// atDaemon plays what a client sent to a fresh daemon and returns what it
// delivers, whether it saw the end, and its error.
func atDaemon(t testing.TB, hello []byte, records ...[]byte) (data string, end bool, err error) {
	t.Helper()
	_, vm := vectorKeys(t)
	s, _, err := respond(vm, vectorPort, hello, true, reader(key(0x22)))
	if err != nil {
		return "", false, err
	}
	for n, r := range records {
		if n == 0 {
			if err := s.OpenReady(r); err != nil {
				return data, false, err
			}
			continue
		}
		b, ended, err := s.Open(nil, r)
		if err != nil {
			return data, end, err
		}
		data, end = data+string(b), ended
	}
	return data, end, nil
}

// atClient plays what a daemon sent to a fresh client.
func atClient(t testing.TB, reply []byte, records ...[]byte) (data string, end bool, err error) {
	t.Helper()
	host, _ := vectorKeys(t)
	i, _, err := initiate(host, vectorPort, true, reader(key(0x11)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := i.Finish(reply)
	if err != nil {
		return "", false, err
	}
	for _, r := range records {
		b, ended, err := s.Open(nil, r)
		if err != nil {
			return data, end, err
		}
		data, end = data+string(b), ended
	}
	return data, end, nil
}

// TestEveryByteTampered changes each bit of each message of a recorded session
// in turn: what was before it is delivered, nothing of it or after it is, and
// no end is proven.
func TestEveryByteTampered(t *testing.T) {
	for _, id := range []string{"AGENTD-17", "AGENTD-21", "BIND-21", "BIND-24"} {
		t.Attr("requirement", id)
	}
	s := record(t)
	sides := []struct {
		name string
		play func(testing.TB, []byte, ...[]byte) (string, bool, error)
		sent [][]byte
		want []string // delivered before message n
	}{
		{"client", atClient, [][]byte{s.reply, s.down1, s.down2, s.downEnd}, []string{"", "", "FIRST", "FIRSTSECOND"}},
		{"daemon", atDaemon, [][]byte{s.hello, s.ready, s.up1, s.up2, s.upEnd}, []string{"", "", "", "first", "firstsecond"}},
	}
	for _, side := range sides {
		if _, end, err := side.play(t, side.sent[0], side.sent[1:]...); !end || err != nil {
			t.Fatalf("%s: the session itself: end %v, %v", side.name, end, err)
		}
		tampered := 0
		for m, message := range side.sent {
			for i := range message {
				for bit := range 8 {
					tampered++
					check(t, side.name, side.play, side.sent, m, i, byte(1)<<bit, side.want[m])
				}
			}
			for cut := range len(message) {
				changed := append([][]byte{}, side.sent...)
				changed[m] = message[:cut]
				if data, end, err := side.play(t, changed[0], changed[1:]...); err == nil || end || data != side.want[m] {
					t.Fatalf("%s, message %d cut to %d bytes: %q, end %v, %v", side.name, m, cut, data, end, err)
				}
			}
		}
		if size := 8 * len(bytes.Join(side.sent, nil)); tampered != size || size == 0 {
			t.Errorf("%s: %d changes tried, want %d", side.name, tampered, size)
		}
	}
}

func check(t *testing.T, name string, play func(testing.TB, []byte, ...[]byte) (string, bool, error), sent [][]byte, m, i int, flip byte, want string) {
	t.Helper()
	changed := append([][]byte{}, sent...)
	changed[m] = bytes.Clone(sent[m])
	changed[m][i] ^= flip
	if data, end, err := play(t, changed[0], changed[1:]...); err == nil || end || data != want {
		t.Fatalf("%s, message %d, byte %d, bit %#x: %q, end %v, %v", name, m, i, flip, data, end, err)
	}
}

// TestEveryOrder plays the records of a session dropped, repeated and swapped:
// only the true order opens, and the first one out of place ends it.
func TestEveryOrder(t *testing.T) {
	t.Attr("requirement", "AGENTD-21")
	t.Attr("requirement", "BIND-24")
	s := record(t)
	down := [][]byte{s.down1, s.down2, s.downEnd}
	tried := 0
	for a := range 4 {
		for b := range 4 {
			for c := range 4 {
				order, want := []int{a, b, c}, ""
				var records [][]byte
				for _, n := range order {
					if n < 3 {
						records = append(records, down[n])
					}
				}
				right := true
				place := 0
				for _, n := range order {
					if n == 3 {
						continue // dropped
					}
					if n != place {
						right = false
						break
					}
					want += []string{"FIRST", "SECOND", ""}[n]
					place++
				}
				data, end, err := atClient(t, s.reply, records...)
				if data != want || end != (place == 3 && right) || (err == nil) != right {
					t.Errorf("order %v: %q, end %v, %v, want %q", order, data, end, err, want)
				}
				tried++
			}
		}
	}
	if tried != 64 {
		t.Errorf("%d orders tried", tried)
	}
}

// TestOneError checks that what fails gives no hint of why, and that a broken
// session stays broken.
func TestOneError(t *testing.T) {
	t.Attr("requirement", "TUNNEL-13")
	s := record(t)
	client, daemon, _, _ := pair(t, true, true)
	if err := daemon.OpenReady(s.up1); err != ErrRecord {
		t.Errorf("another record for the ready message: %v", err)
	}
	if _, _, err := daemon.Open(nil, s.ready); err != ErrBroken {
		t.Errorf("after a broken ready message: %v", err)
	}
	for _, bad := range [][]byte{nil, {}, make([]byte, 15), make([]byte, 16), make([]byte, MaxRecord), make([]byte, MaxRecord+1), s.down2} {
		fresh, _, _, _ := pair(t, true, true)
		if _, _, err := fresh.Open(nil, bad); err != ErrRecord {
			t.Errorf("a bad record of %d bytes: %v", len(bad), err)
		}
		if _, _, err := fresh.Open(nil, s.down1); err != ErrBroken {
			t.Errorf("a good record after a bad one: %v", err)
		}
	}
	if _, err := client.Seal(nil, nil); err == nil {
		t.Error("no bytes were sealed as data")
	}
	if _, err := client.Seal(nil, make([]byte, MaxChunk+1)); err == nil {
		t.Error("a chunk above the cap was sealed")
	}
	if _, err := client.SealEnd(nil); err != nil {
		t.Error(err)
	}
	if _, err := client.Seal(nil, []byte("x")); err != ErrEnded {
		t.Errorf("data after the end: %v", err)
	}
	// The last positions of a session: no record repeats one.
	last, _, _, _ := pair(t, true, true)
	last.send.SetNonce(math.MaxUint64 - 1)
	if _, err := last.Seal(nil, []byte("x")); err != nil {
		t.Errorf("the last position: %v", err)
	}
	if _, err := last.Seal(nil, []byte("x")); err == nil {
		t.Error("a record was sealed past the last position")
	}
}

// TestHandshakeBindings checks that a handshake opens only for the keys and the
// port that it was made for, in one try.
func TestHandshakeBindings(t *testing.T) {
	for _, id := range []string{"AGENTD-17", "BIND-21", "TUNNEL-6"} {
		t.Attr("requirement", id)
	}
	host, vm := vectorKeys(t)
	_, hello, err := Initiate(host, 80, true)
	if err != nil {
		t.Fatal(err)
	}
	other := vm
	other.Peer[3] ^= 1
	for name, f := range map[string]func() error{
		"another port": func() error { _, _, err := Respond(vm, 81, hello, true); return err },
		"another host": func() error { _, _, err := Respond(other, 80, hello, true); return err },
		"its own answer": func() error {
			_, m, _ := Respond(vm, 80, hello, true)
			_, _, err := Respond(vm, 80, m, true)
			return err
		},
		"an empty one":         func() error { _, _, err := Respond(vm, 80, nil, true); return err },
		"one that is too long": func() error { _, _, err := Respond(vm, 80, make([]byte, MaxRecord+1), true); return err },
		"a reply of another": func() error {
			i, _, _ := Initiate(host, 80, true)
			_, m, _ := Respond(vm, 80, hello, true)
			_, err := i.Finish(m)
			return err
		},
	} {
		if err := f(); err != ErrHandshake {
			t.Errorf("%s: %v", name, err)
		}
	}
	i, hello, err := Initiate(host, 80, true)
	if err != nil {
		t.Fatal(err)
	}
	_, reply, err := Respond(vm, 80, hello, true)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(reply)
	bad[40] ^= 1
	if _, err := i.Finish(bad); err != ErrHandshake {
		t.Errorf("a bad reply: %v", err)
	}
	if _, err := i.Finish(reply); err != ErrHandshake {
		t.Errorf("the right reply after a bad one: %v", err)
	}
}

// TestKeysNeverPrint checks every way in which keys could reach a log.
func TestKeysNeverPrint(t *testing.T) {
	t.Attr("requirement", "TUNNEL-13")
	host, _ := vectorKeys(t)
	for _, text := range []string{fmt.Sprint(host), fmt.Sprintf("%v %+v %#v %s", host, host, host, &host), host.LogValue().String()} {
		if !strings.Contains(text, "[redacted]") || strings.Contains(text, "9 9") || strings.Contains(text, "0x9") {
			t.Errorf("printed %q", text)
		}
	}
	for _, k := range []Keys{{}, {Private: key(1)}, {Peer: key(1)}} {
		if _, _, err := Initiate(k, 1, true); err == nil {
			t.Error("a key of zeros was used")
		}
	}
	if _, err := PublicKey([KeySize]byte{}); err == nil {
		t.Error("a private key of zeros has a public one")
	}
}

// TestFlags checks that unknown bits and bytes of the handshake's payload are
// left to later versions, and that an empty payload offers nothing.
func TestFlags(t *testing.T) {
	t.Attr("requirement", "TUNNEL-6")
	for payload, want := range map[string]bool{"": false, "\x00": false, "\x01": true, "\xff": true, "\xfe": false, "\x01tail": true, "\x00\x01": false} {
		host, vm := vectorKeys(t)
		asking := newSecond(t, host.Private, host.Peer, key(0x11), vectorPort, true)
		hello, err := asking.message1([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := Respond(vm, vectorPort, hello, true)
		if err != nil || s.PeerOffersEnd() != want {
			t.Errorf("payload %q: offers %v, %v, want %v", payload, s, err, want)
		}
	}
}

// FuzzRespond checks that no first message crashes the daemon's side or opens
// it, but the one that the pinned host made.
func FuzzRespond(f *testing.F) {
	s := record(f)
	f.Add(s.hello)
	f.Add(s.hello[:48])
	f.Add(append(bytes.Clone(s.hello), 0))
	f.Add([]byte{})
	f.Add(make([]byte, 49))
	_, vm := vectorKeys(f)
	f.Fuzz(func(t *testing.T, message []byte) {
		_, reply, err := Respond(vm, vectorPort, message, true)
		if (err == nil) != bytes.Equal(message, s.hello) || (err == nil) != (len(reply) == 49) {
			t.Fatalf("message %x: %v", message, err)
		}
	})
}

// FuzzOpen checks that no record crashes a session or opens at a position that
// it was not made for, and that the session is over after it.
func FuzzOpen(f *testing.F) {
	s := record(f)
	for _, b := range [][]byte{s.down1, s.down2, s.downEnd, {}, make([]byte, 16)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		client, _, _, _ := pair(t, true, true)
		data, end, err := client.Open(nil, message)
		if right := bytes.Equal(message, s.down1); (err == nil) != right || end || (right && string(data) != "FIRST") || (!right && len(data) > 0) {
			t.Fatalf("record %x: %q, %v, %v", message, data, end, err)
		}
		if err != nil {
			if _, _, again := client.Open(nil, s.down1); again != ErrBroken {
				t.Fatalf("after record %x: %v", message, again)
			}
		}
	})
}
