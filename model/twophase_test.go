package model

import "math/bits"

// packed is a hand-packed state of two-phase commit, 32 bytes, with the layout
// of the limit program: a holds two bits a resource manager, b who is prepared at
// the transaction manager, c the messages, d the transaction manager's state.
type packed struct{ a, b, c, d uint64 }

const (
	rmWorking, rmPrepared, rmCommitted, rmAborted = 0, 1, 2, 3

	msgCommit, msgAbort = uint64(1) << 62, uint64(1) << 63
)

const (
	tmCommit = iota
	tmAbort
	tmRcvPrepared
	rmPrepare
	rmChooseToAbort
	rmRcvCommitMsg
	rmRcvAbortMsg
)

var twoPhaseActions = []ActionInfo{
	{Name: "TMCommit"}, {Name: "TMAbort"}, {Name: "TMRcvPrepared", Params: []string{"rm"}}, {Name: "RMPrepare", Params: []string{"rm"}},
	{Name: "RMChooseToAbort", Params: []string{"rm"}}, {Name: "RMRcvCommitMsg", Params: []string{"rm"}}, {Name: "RMRcvAbortMsg", Params: []string{"rm"}},
}

// twoPhase is the TwoPhase specification of Gray and Lamport with n resource
// managers, as tlaplus/Examples has it (checker facts, section 1).
func twoPhase(n int) Model[packed] {
	return Model[packed]{
		Name: "two-phase commit", Actions: twoPhaseActions,
		Init: func(out []packed) []packed { return append(out, packed{}) },
		Next: func(s packed, out []Step[packed]) []Step[packed] { return twoPhaseNext(n, s, out) },
		Properties: []Property[packed]{
			Always("no manager commits while another has aborted", func(s packed) bool {
				lo, hi := s.a&0x5555555555555555, s.a>>1&0x5555555555555555
				return hi&^lo == 0 || hi&lo == 0
			}),
		},
	}
}

func twoPhaseNext(n int, s packed, out []Step[packed]) []Step[packed] {
	if s.d == 0 {
		if s.b == 1<<n-1 {
			t := s
			t.d, t.c = 1, s.c|msgCommit
			out = append(out, Step[packed]{Action{ID: tmCommit}, t})
		}
		t := s
		t.d, t.c = 2, s.c|msgAbort
		out = append(out, Step[packed]{Action{ID: tmAbort}, t})
	}
	for i := range n {
		bit, sh, arg := uint64(1)<<i, 2*i, [MaxArgs]uint8{uint8(i)}
		st := s.a >> sh & 3
		clr := s.a &^ (3 << sh)
		if s.d == 0 && s.c&bit != 0 {
			t := s
			t.b |= bit
			out = append(out, Step[packed]{Action{tmRcvPrepared, arg}, t})
		}
		if st == rmWorking {
			t := s
			t.a, t.c = clr|rmPrepared<<sh, s.c|bit
			out = append(out, Step[packed]{Action{rmPrepare, arg}, t})
			t = s
			t.a = clr | rmAborted<<sh
			out = append(out, Step[packed]{Action{rmChooseToAbort, arg}, t})
		}
		if s.c&msgCommit != 0 {
			t := s
			t.a = clr | rmCommitted<<sh
			out = append(out, Step[packed]{Action{rmRcvCommitMsg, arg}, t})
		}
		if s.c&msgAbort != 0 {
			t := s
			t.a = clr | rmAborted<<sh
			out = append(out, Step[packed]{Action{rmRcvAbortMsg, arg}, t})
		}
	}
	return out
}

// packedFingerprint is the limit program's hash: three folded multiplications.
func packedFingerprint(s *packed) uint64 {
	h1, l1 := bits.Mul64(s.a^0xa0761d6478bd642f, s.b^0xe7037ed1a0b428db)
	h2, l2 := bits.Mul64(s.c^0x8ebc6af09c88c6e3, s.d^0x589965cc75374cc3)
	h, l := bits.Mul64(h1^l1^0x1d8e4e27c47d124f, h2^l2^0xeb44accab455d165)
	return h ^ l
}
