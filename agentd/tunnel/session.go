package tunnel

import (
	"fmt"

	"github.com/flynn/noise"
)

// Session seals and opens the records of one tunnel. Its sending and its
// receiving half are independent: one goroutine may seal while another opens,
// but each half is for one goroutine at a time.
type Session struct {
	peerOffers bool

	send      *noise.CipherState
	sendEnded bool

	receive      *noise.CipherState
	receiveEnded bool
	broken       bool
}

// PeerOffersEnd reports whether the peer promised an end of stream before a
// clean close.
func (s *Session) PeerOffersEnd() bool { return s.peerOffers }

// Seal appends to dst the next record with data, which must hold between 1 and
// MaxChunk bytes: an empty record is the end of stream and nothing else.
func (s *Session) Seal(dst, data []byte) ([]byte, error) {
	if len(data) == 0 || len(data) > MaxChunk {
		return dst, fmt.Errorf("cannot seal %d bytes: a record holds between 1 and %d", len(data), MaxChunk)
	}
	return s.seal(dst, data)
}

// SealReady appends to dst the ready message, the client's first record.
func (s *Session) SealReady(dst []byte) ([]byte, error) {
	if s.send.Nonce() != 0 {
		return dst, fmt.Errorf("cannot seal the ready message: it is record 0, and this is record %d", s.send.Nonce())
	}
	return s.seal(dst, []byte(ready))
}

// SealEnd appends to dst the end of stream: a record of nothing. Its position
// vouches for every record before it, so it needs no count of bytes.
func (s *Session) SealEnd(dst []byte) ([]byte, error) {
	dst, err := s.seal(dst, nil)
	if err == nil {
		s.sendEnded = true
	}
	return dst, err
}

func (s *Session) seal(dst, plain []byte) ([]byte, error) {
	if s.sendEnded {
		return dst, ErrEnded
	}
	out, err := s.send.Encrypt(dst, nil, plain)
	if err != nil {
		return dst, fmt.Errorf("cannot seal a record: %w", err)
	}
	return out, nil
}

// Open appends to dst what the next record holds. end is true for the end of
// stream, after which nothing opens. The first record that does not open gives
// ErrRecord, every later one ErrBroken. dst may overlap neither record nor be
// read after an error.
func (s *Session) Open(dst, record []byte) (data []byte, end bool, err error) {
	switch {
	case s.broken:
		return dst, false, ErrBroken
	case s.receiveEnded:
		return dst, false, ErrEnded
	}
	if len(record) < Overhead || len(record) > MaxRecord {
		s.broken = true
		return dst, false, ErrRecord
	}
	out, err := s.receive.Decrypt(dst, nil, record)
	if err != nil {
		// AGENTD-21, BIND-24: forged, repeated, reordered or missing before it:
		// the session is over, since nothing after can be in its place.
		s.broken = true
		return dst, false, ErrRecord
	}
	if len(record) == Overhead {
		// TUNNEL-7: an empty record is never data, so it can only be the end.
		s.receiveEnded = true
		return out, true, nil
	}
	return out, false, nil
}

// OpenReady judges the client's first record. After an error nothing opens.
func (s *Session) OpenReady(record []byte) error {
	if s.receive.Nonce() != 0 || s.broken {
		s.broken = true
		return ErrNotReady
	}
	data, end, err := s.Open(nil, record)
	if err != nil {
		return err
	}
	if end || string(data) != ready {
		s.broken = true
		return ErrNotReady
	}
	return nil
}
