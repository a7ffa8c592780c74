package tunnel

import (
	"crypto/ecdh"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"hash"
	"testing"

	"golang.org/x/crypto/blake2s"
	"golang.org/x/crypto/chacha20poly1305"
	"pgregory.net/rapid"
)

// second is a second implementation of Noise KK and its records, written from
// the Noise specification (revision 34, sections 5 and 7.5) on primitives alone:
// it shares no line with the first, and not its library.
type second struct {
	ck, h     []byte
	key       []byte // nil before the first MixKey
	n         uint64
	s, e      *ecdh.PrivateKey
	rs        *ecdh.PublicKey
	initiator bool
}

func newBlake() hash.Hash {
	h, err := blake2s.New256(nil)
	if err != nil {
		panic(err)
	}
	return h
}

func sum(parts ...[]byte) []byte {
	h := newBlake()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

func mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(newBlake, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// hkdf2 is the HKDF of section 4.3 with two outputs.
func hkdf2(ck, input []byte) (a, b []byte) {
	temp := mac(ck, input)
	a = mac(temp, []byte{1})
	return a, mac(temp, a, []byte{2})
}

// newSecond starts a handshake. e is the ephemeral key.
func newSecond(t testing.TB, private, peer, e [32]byte, port uint16, initiator bool) *second {
	t.Helper()
	key := func(b [32]byte) *ecdh.PrivateKey {
		k, err := ecdh.X25519().NewPrivateKey(b[:])
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	rs, err := ecdh.X25519().NewPublicKey(peer[:])
	if err != nil {
		t.Fatal(err)
	}
	x := &second{s: key(private), e: key(e), rs: rs, initiator: initiator}
	// The name is 33 bytes, one more than the hash, so it is hashed.
	x.h = sum([]byte("Noise_KK_25519_ChaChaPoly_BLAKE2s"))
	x.ck = x.h
	prologue := append([]byte("microvms-tunnel\x00Noise_KK_25519_ChaChaPoly_BLAKE2s\x002\x00/v1/tcp\x00"), byte(port>>8), byte(port))
	x.mixHash(prologue)
	first, then := x.s.PublicKey().Bytes(), peer[:]
	if !initiator {
		first, then = then, first
	}
	x.mixHash(first)
	x.mixHash(then)
	return x
}

func (x *second) mixHash(b []byte) { x.h = sum(x.h, b) }

func (x *second) mixDH(private *ecdh.PrivateKey, public *ecdh.PublicKey) error {
	shared, err := private.ECDH(public)
	if err != nil {
		return err
	}
	x.ck, x.key = hkdf2(x.ck, shared)
	x.n = 0
	return nil
}

func nonce(n uint64) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 4, 12), n)
}

func sealWith(key []byte, n uint64, plain, ad []byte) []byte {
	aead, err := chacha20poly1305.New(key)
	if err != nil {
		panic(err)
	}
	return aead.Seal(nil, nonce(n), plain, ad)
}

func openWith(key []byte, n uint64, sealed, ad []byte) ([]byte, error) {
	aead, err := chacha20poly1305.New(key)
	if err != nil {
		panic(err)
	}
	return aead.Open(nil, nonce(n), sealed, ad)
}

// write makes a message: e, then the given Diffie-Hellman results, then the
// payload.
func (x *second) write(payload []byte, mixes func() error) ([]byte, error) {
	public := x.e.PublicKey().Bytes()
	x.mixHash(public)
	if err := mixes(); err != nil {
		return nil, err
	}
	sealed := sealWith(x.key, x.n, payload, x.h)
	x.n++
	x.mixHash(sealed)
	return append(public, sealed...), nil
}

func (x *second) read(message []byte, mixes func(re *ecdh.PublicKey) error) ([]byte, error) {
	if len(message) < 48 {
		return nil, errors.New("short message")
	}
	re, err := ecdh.X25519().NewPublicKey(message[:32])
	if err != nil {
		return nil, err
	}
	x.mixHash(message[:32])
	if err := mixes(re); err != nil {
		return nil, err
	}
	payload, err := openWith(x.key, x.n, message[32:], x.h)
	x.n++
	x.mixHash(message[32:])
	return payload, err
}

// message1 of the pattern is: e, es, ss.
func (x *second) message1(payload []byte) ([]byte, error) {
	return x.write(payload, func() error { return errors.Join(x.mixDH(x.e, x.rs), x.mixDH(x.s, x.rs)) })
}

// answer reads message 1 and makes message 2: e, ee, se.
func (x *second) answer(message1, payload []byte) (got, message2 []byte, err error) {
	var re *ecdh.PublicKey
	got, err = x.read(message1, func(e *ecdh.PublicKey) error {
		re = e
		return errors.Join(x.mixDH(x.s, e), x.mixDH(x.s, x.rs))
	})
	if err != nil {
		return nil, nil, err
	}
	message2, err = x.write(payload, func() error { return errors.Join(x.mixDH(x.e, re), x.mixDH(x.e, x.rs)) })
	return got, message2, err
}

// finish reads message 2.
func (x *second) finish(message2 []byte) ([]byte, error) {
	return x.read(message2, func(re *ecdh.PublicKey) error { return errors.Join(x.mixDH(x.e, re), x.mixDH(x.s, re)) })
}

// keys splits the handshake into the keys of both directions, the initiator's
// first.
func (x *second) keys() (up, down []byte) { return hkdf2(x.ck, nil) }

// TestSecondImplementation lets the two implementations speak to each other in
// both roles, over any keys, ports, flags and data, and compares every byte.
func TestSecondImplementation(t *testing.T) {
	t.Attr("requirement", "TUNNEL-6")
	t.Attr("requirement", "TUNNEL-7")
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string) (k [32]byte) {
			copy(k[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(r, name))
			k[5] |= 1 // never all zero
			return k
		}
		host, vm, hostE, vmE := draw("host"), draw("vm"), draw("host ephemeral"), draw("vm ephemeral")
		port := rapid.Uint16().Draw(r, "port")
		offerUp, offerDown := rapid.Bool().Draw(r, "client offers"), rapid.Bool().Draw(r, "daemon offers")
		hostPublic, err := PublicKey(host)
		if err != nil {
			t.Fatal(err)
		}
		vmPublic, err := PublicKey(vm)
		if err != nil {
			t.Fatal(err)
		}
		// Ours asks, theirs answers.
		i, message1, err := initiate(Keys{host, vmPublic}, port, offerUp, reader(hostE))
		if err != nil {
			t.Fatal(err)
		}
		theirs := newSecond(t, vm, hostPublic, vmE, port, false)
		got, message2, err := theirs.answer(message1, flags(offerDown))
		if err != nil || got[0] != flags(offerUp)[0] {
			t.Fatalf("the second implementation reads %x, %v", got, err)
		}
		client, err := i.Finish(message2)
		if err != nil || client.PeerOffersEnd() != offerDown {
			t.Fatalf("offers %v, %v", client, err)
		}
		// Theirs asks, ours answers: the messages are the same, byte for byte.
		asking := newSecond(t, host, vmPublic, hostE, port, true)
		again, err := asking.message1(flags(offerUp))
		if err != nil || string(again) != string(message1) {
			t.Fatalf("message 1 differs: %x, %x, %v", again, message1, err)
		}
		daemon, reply, err := respond(Keys{vm, hostPublic}, port, again, offerDown, reader(vmE))
		if err != nil || string(reply) != string(message2) || daemon.PeerOffersEnd() != offerUp {
			t.Fatalf("message 2 differs: %x, %x, %v", reply, message2, err)
		}
		if _, err := asking.finish(reply); err != nil {
			t.Fatal(err)
		}
		compareRecords(t, r, client, daemon, asking)
	})
}

func reader(k [32]byte) *keyReader { return &keyReader{k: k} }

type keyReader struct{ k [32]byte }

func (r *keyReader) Read(p []byte) (int, error) { return copy(p, r.k[:]), nil }

// compareRecords seals data with the first implementation and with the second's
// keys, and opens each with the other.
func compareRecords(t *testing.T, r *rapid.T, client, daemon *Session, x *second) {
	t.Helper()
	up, down := x.keys()
	chunks := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 300), 0, 4).Draw(r, "chunks")
	for _, d := range []struct {
		key      []byte
		from, to *Session
	}{{up, client, daemon}, {down, daemon, client}} {
		for n, chunk := range append(chunks, nil) {
			theirs := sealWith(d.key, uint64(n), chunk, nil)
			var ours []byte
			var err error
			if chunk == nil {
				ours, err = d.from.SealEnd(nil)
			} else {
				ours, err = d.from.Seal(nil, chunk)
			}
			if err != nil || string(ours) != string(theirs) {
				t.Fatalf("record %d differs: %x, %x, %v", n, ours, theirs, err)
			}
			data, end, err := d.to.Open(nil, theirs)
			if err != nil || string(data) != string(chunk) || end != (chunk == nil) {
				t.Fatalf("record %d opens as %x, end %v, %v", n, data, end, err)
			}
		}
	}
}
