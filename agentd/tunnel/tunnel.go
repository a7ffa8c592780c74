// Package tunnel is the verified tunnel's cryptography, shared by the daemon
// and the client: the Noise handshake that pins both keys, the ready message,
// and the records in which data and the end of stream travel (wire facts,
// section 10.3). It does no input or output.
//
//	client (initiator)                          daemon (responder)
//	Initiate ── message 1 ─────────────────────▶ Respond
//	Finish   ◀───────────────────── message 2 ──
//	SealReady ── record 0 ─────────────────────▶ OpenReady, then it dials
//	Seal     ── records 1, 2, … ───────────────▶ Open
//	Open     ◀──────────────── records 0, 1, … ─ Seal
//	SealEnd  ── the last record ───────────────▶ Open reports the end
//
// # Promises
//
//   - A session comes about only between the two pinned keys, for one guest port,
//     path and protocol version: the prologue holds them, so a handshake made for
//     another port or version fails like one with a wrong key.
//   - A record opens only at its own position. The first one that does not open
//     ends the session for good: nothing opens after it ([ErrBroken]).
//   - Every failure to open gives the same error, so it says nothing about which
//     check failed.
//   - Keys never print.
//
// The protocol is Noise KK, revision 34 of the Noise Protocol Framework, with
// Curve25519, ChaCha20-Poly1305 and BLAKE2s.
package tunnel

import (
	"crypto/ecdh"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"microvms/agentd/api"
)

// Pattern names the handshake.
const Pattern = "Noise_KK_25519_ChaChaPoly_BLAKE2s"

// Sizes in bytes.
const (
	KeySize       = 32    // of a private or public key
	MaxChunk      = 32768 // of user data in one record
	MaxRecord     = 65535 // of a record as it travels, the most that Noise allows
	Overhead      = 16    // by which a record is longer than what it carries
	handshakeSize = KeySize + Overhead
)

// offersEnd is the bit of the handshake's flags that promises an end of stream
// before a clean close.
const offersEnd = 0x01

// ready is what the client's first record holds.
const ready = "microvms-tunnel-ready"

// Errors of the handshake and of records. None says more than which step
// failed.
var (
	// ErrHandshake is returned by Finish and Respond for a message that the
	// pinned peer did not make for this tunnel.
	ErrHandshake = errors.New("handshake message does not authenticate")
	// ErrRecord is returned by Open and OpenReady for a record that the peer did
	// not make for this position.
	ErrRecord = errors.New("record does not authenticate at its position")
	// ErrNotReady is returned by OpenReady for an authentic record that is not
	// the ready message.
	ErrNotReady = errors.New("first record is not the ready message")
	// ErrBroken is returned by Open after a record did not open.
	ErrBroken = errors.New("session is broken: an earlier record did not authenticate")
	// ErrEnded is returned by Seal and Open after the end of stream in their
	// direction.
	ErrEnded = errors.New("session's direction has ended")
)

// Keys are what one side of a tunnel holds: its own private key and the public
// key that it pins. They print as a redacted word.
type Keys struct {
	Private [KeySize]byte // of this side
	Peer    [KeySize]byte // public, of the other side
}

// LogValue redacts the keys.
func (Keys) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String redacts the keys.
func (Keys) String() string { return "[redacted]" }

// GoString redacts the keys.
func (Keys) GoString() string { return "[redacted]" }

// check refuses keys that cannot pin anything.
func (k *Keys) check() error {
	if k.Private == [KeySize]byte{} {
		return errors.New("cannot use the tunnel's private key: it is all zero")
	}
	if k.Peer == [KeySize]byte{} {
		return errors.New("cannot use the tunnel's pinned key: it is all zero")
	}
	return nil
}

// PublicKey returns the x25519 public key of a private key. A VM's identity
// seed is its private key as it stands: no derivation is applied.
func PublicKey(private [KeySize]byte) ([KeySize]byte, error) {
	var out [KeySize]byte
	if private == out {
		return out, errors.New("cannot derive a public key: the private key is all zero")
	}
	k, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return out, fmt.Errorf("cannot derive a public key: %w", err)
	}
	copy(out[:], k.PublicKey().Bytes())
	return out, nil
}

// Prologue returns what both sides mix into the handshake before its first
// message: the protocol, its version, the path and the guest port in network
// order. The slice is fresh.
func Prologue(port uint16) []byte {
	b := []byte("microvms-tunnel\x00" + Pattern + "\x00" + api.ProtocolVersion + "\x00" + api.PathTunnel + "\x00")
	// TUNNEL-6, BIND-21: the port is bound, so that a handshake that was made for one
	// guest port opens no other.
	return binary.BigEndian.AppendUint16(b, port)
}
