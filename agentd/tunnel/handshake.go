package tunnel

import (
	"fmt"
	"io"

	"github.com/flynn/noise"
)

// suite is stateless, so all handshakes share it.
var suite = noise.NewCipherSuite(noise.DH25519, noise.CipherChaChaPoly, noise.HashBLAKE2s)

// Initiator is a handshake that waits for its reply. It is for one goroutine
// and one reply.
type Initiator struct {
	state *noise.HandshakeState
	done  bool
}

// Initiate begins the client's handshake for a tunnel to port and returns
// message 1. offer promises the end of stream before a clean close.
func Initiate(k Keys, port uint16, offer bool) (*Initiator, []byte, error) {
	return initiate(k, port, offer, nil)
}

func initiate(k Keys, port uint16, offer bool, random io.Reader) (*Initiator, []byte, error) {
	state, err := newState(k, port, true, random)
	if err != nil {
		return nil, nil, err
	}
	message, _, _, err := state.WriteMessage(nil, flags(offer))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot write handshake message 1: %w", err)
	}
	return &Initiator{state: state}, message, nil
}

// Finish judges the daemon's reply and returns the session. It fails with
// ErrHandshake, and then for ever: a second try is a new handshake on a new
// connection.
func (i *Initiator) Finish(message2 []byte) (*Session, error) {
	if i.done || len(message2) < handshakeSize || len(message2) > MaxRecord {
		i.done = true
		return nil, ErrHandshake
	}
	i.done = true
	payload, send, receive, err := i.state.ReadMessage(nil, message2)
	if err != nil || send == nil {
		// BIND-21: whatever fails here, the far end is not the pinned VM, and
		// the error says no more than that.
		return nil, ErrHandshake
	}
	return &Session{send: send, receive: receive, peerOffers: offered(payload)}, nil
}

// Respond judges a client's message 1 for a tunnel to port and returns the
// session with message 2. It fails with ErrHandshake for a message that the
// pinned host did not make for this tunnel, and with another error when the
// keys are of no use.
func Respond(k Keys, port uint16, message1 []byte, offer bool) (*Session, []byte, error) {
	return respond(k, port, message1, offer, nil)
}

func respond(k Keys, port uint16, message1 []byte, offer bool, random io.Reader) (*Session, []byte, error) {
	state, err := newState(k, port, false, random)
	if err != nil {
		return nil, nil, err
	}
	if len(message1) < handshakeSize || len(message1) > MaxRecord {
		return nil, nil, ErrHandshake
	}
	payload, _, _, err := state.ReadMessage(nil, message1)
	if err != nil {
		// AGENTD-17: only the pinned host's key makes a message that opens here.
		return nil, nil, ErrHandshake
	}
	message2, receive, send, err := state.WriteMessage(nil, flags(offer))
	if err != nil || send == nil {
		return nil, nil, ErrHandshake
	}
	return &Session{send: send, receive: receive, peerOffers: offered(payload)}, message2, nil
}

func newState(k Keys, port uint16, initiator bool, random io.Reader) (*noise.HandshakeState, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	public, err := PublicKey(k.Private)
	if err != nil {
		return nil, err
	}
	state, err := noise.NewHandshakeState(noise.Config{
		CipherSuite:   suite,
		Random:        random, // nil: crypto/rand
		Pattern:       noise.HandshakeKK,
		Initiator:     initiator,
		Prologue:      Prologue(port),
		StaticKeypair: noise.DHKey{Private: append([]byte(nil), k.Private[:]...), Public: public[:]},
		PeerStatic:    append([]byte(nil), k.Peer[:]...),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot prepare the handshake: %w", err)
	}
	return state, nil
}

func flags(offer bool) []byte {
	if offer {
		return []byte{offersEnd}
	}
	return []byte{0}
}

// offered reads the flags of a handshake payload: bits and bytes that this
// version does not know are left to later ones, and an empty payload offers
// nothing.
func offered(payload []byte) bool { return len(payload) > 0 && payload[0]&offersEnd != 0 }
