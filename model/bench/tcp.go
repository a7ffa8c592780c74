package bench

import "microvms/model"

// tcpQueue is the room for segments on their way to a peer: enough for what the
// action constraint follows and the one step more that it cuts.
const tcpQueue = 8

// TCPState is a state of [TCP].
type TCPState struct {
	Conn    [2]uint8           // tcpClosed to tcpTimeWait
	TCB     [2]uint8           // 1: the peer holds a transmission control block
	Network [2][tcpQueue]uint8 // segments on their way to the peer, oldest first; 0 ends them
}

// The states of a connection (RFC 9293, section 3.3.2).
const (
	tcpClosed uint8 = iota
	tcpListen
	tcpSynSent
	tcpSynReceived
	tcpEstablished
	tcpFinWait1
	tcpFinWait2
	tcpClosing
	tcpCloseWait
	tcpLastAck
	tcpTimeWait
)

var tcpNames = []string{
	"CLOSED", "LISTEN", "SYN-SENT", "SYN-RECEIVED", "ESTABLISHED", "FIN-WAIT-1",
	"FIN-WAIT-2", "CLOSING", "CLOSE-WAIT", "LAST-ACK", "TIME-WAIT",
}

// The control bits of a segment. An acknowledged FIN is a segment of its own.
const (
	segSyn uint8 = iota + 1
	segSynAck
	segAck
	segFin
	segAckOfFin
	segRst
)

var segNames = []string{"", "SYN", "SYN,ACK", "ACK", "FIN", "ACKofFIN", "RST"}

// The actions of TCP: those of the user, those of the system, and the reset of
// note 3.
const (
	tcpPassiveOpen uint16 = iota
	tcpActiveOpen
	tcpSend
	tcpClose
	tcpSystem
	tcpReset
)

// tcpRule is one arrow of the state diagram: in a state, take the segments that
// head the queue, send one to the other peer, and move on.
type tcpRule struct {
	action   uint16
	from, to uint8
	take     []uint8
	send     uint8
	tcb      uint8 // tcbKeep, tcbCreate or tcbDelete
}

const (
	tcbKeep uint8 = iota
	tcbCreate
	tcbDelete
)

// tcpRules is RFC 9293, figure 5, with note 2 as the arrow from FIN-WAIT-1 to
// TIME-WAIT. Note 3, resets from and in any state, is in next.
var tcpRules = []tcpRule{
	{tcpPassiveOpen, tcpClosed, tcpListen, nil, 0, tcbCreate},
	{tcpActiveOpen, tcpClosed, tcpSynSent, nil, segSyn, tcbCreate},
	{tcpSend, tcpListen, tcpSynSent, nil, segSyn, tcbKeep},
	{tcpClose, tcpListen, tcpClosed, nil, 0, tcbDelete},
	{tcpClose, tcpSynSent, tcpClosed, nil, 0, tcbDelete},
	{tcpClose, tcpSynReceived, tcpFinWait1, nil, segFin, tcbKeep},
	{tcpClose, tcpEstablished, tcpFinWait1, nil, segFin, tcbKeep},
	{tcpClose, tcpCloseWait, tcpLastAck, nil, segFin, tcbKeep},
	{tcpSystem, tcpListen, tcpSynReceived, []uint8{segSyn}, segSynAck, tcbKeep},
	{tcpSystem, tcpSynSent, tcpSynReceived, []uint8{segSyn}, segSynAck, tcbKeep},
	{tcpSystem, tcpSynSent, tcpEstablished, []uint8{segSynAck}, segAck, tcbKeep},
	{tcpSystem, tcpSynReceived, tcpListen, []uint8{segRst}, 0, tcbKeep},
	{tcpSystem, tcpSynReceived, tcpEstablished, []uint8{segAck}, 0, tcbKeep},
	{tcpSystem, tcpEstablished, tcpCloseWait, []uint8{segFin}, segAckOfFin, tcbKeep},
	{tcpSystem, tcpFinWait1, tcpClosing, []uint8{segFin}, segAckOfFin, tcbKeep},
	{tcpSystem, tcpFinWait1, tcpFinWait2, []uint8{segAckOfFin}, 0, tcbKeep},
	{tcpSystem, tcpFinWait1, tcpTimeWait, []uint8{segFin, segAckOfFin}, segAckOfFin, tcbKeep},
	{tcpSystem, tcpFinWait2, tcpTimeWait, []uint8{segFin}, segAckOfFin, tcbKeep},
	{tcpSystem, tcpClosing, tcpTimeWait, []uint8{segAckOfFin}, 0, tcbKeep},
	{tcpSystem, tcpLastAck, tcpClosed, []uint8{segAckOfFin}, 0, tcbDelete},
	{tcpSystem, tcpTimeWait, tcpClosed, nil, 0, tcbDelete},
}

// TCP is the connection state diagram of two peers, one of which has just
// opened a connection to the other. Two action constraints bound it: no segment
// follows its own copy in a queue (NoRetransmission), and nobody opens another
// connection (SingleActiveOpen).
//
// Sources: RFC 9293, section 3.3.2; tlaplus/Examples,
// specifications/tcp/tcp.tla, MCtcp.cfg.
func TCP() model.Model[TCPState] {
	return model.Model[TCPState]{
		Name:   "TCP",
		Config: "2",
		Actions: []model.ActionInfo{
			tcpPassiveOpen: {Name: "PassiveOpen", Params: []string{"peer"}},
			tcpActiveOpen:  {Name: "ActiveOpen", Params: []string{"peer"}},
			tcpSend:        {Name: "Send", Params: []string{"peer"}},
			tcpClose:       {Name: "Close", Params: []string{"peer"}},
			tcpSystem:      {Name: "Receive", Params: []string{"peer"}},
			tcpReset:       {Name: "Reset", Params: []string{"peer"}},
		},
		// These are enabled, but the action constraint never follows them.
		MayBeDead: []string{"PassiveOpen", "ActiveOpen", "Send"},
		Init: func(out []TCPState) []TCPState {
			for active := range 2 {
				s := TCPState{TCB: [2]uint8{1, 1}, Conn: [2]uint8{tcpListen, tcpListen}}
				s.Conn[active] = tcpSynSent
				s.Network[1-active][0] = segSyn
				out = append(out, s)
			}
			return out
		},
		Next: TCPState.next,
		ActionConstraint: func(_ TCPState, step model.Step[TCPState]) bool {
			return step.Action.ID > tcpSend && !step.State.retransmits()
		},
		Properties: []model.Property[TCPState]{
			model.Always("Inv: with empty queues, one is established if the other is", func(s TCPState) bool {
				return s.Network[0][0] != 0 || s.Network[1][0] != 0 || (s.Conn[0] == tcpEstablished) == (s.Conn[1] == tcpEstablished)
			}),
			model.Sometimes("both are established", func(s TCPState) bool {
				return s.Conn == [2]uint8{tcpEstablished, tcpEstablished}
			}),
			model.Sometimes("both close at once", func(s TCPState) bool {
				return s.Conn == [2]uint8{tcpFinWait1, tcpFinWait1}
			}),
		},
		Fields: TCPState.fields,
	}
}

func (s TCPState) next(out []model.Step[TCPState]) []model.Step[TCPState] {
	for peer := range uint8(2) {
		for i := range tcpRules {
			rule := &tcpRules[i]
			if rule.from != s.Conn[peer] || !s.heads(peer, rule.take) {
				continue
			}
			out = append(out, s.apply(peer, rule))
		}
		// Note 3: whoever holds a control block may send a RST, and goes to TIME-WAIT.
		if s.TCB[peer] == 1 {
			out = append(out, s.apply(peer, &tcpRule{action: tcpReset, to: tcpTimeWait, send: segRst}))
		}
		// Note 3: a RST received in any state leads to LISTEN or CLOSED.
		if s.Network[peer][0] == segRst {
			taken := []uint8{segRst}
			out = append(out,
				s.apply(peer, &tcpRule{action: tcpReset, to: tcpListen, take: taken}),
				s.apply(peer, &tcpRule{action: tcpReset, to: tcpClosed, take: taken}))
		}
	}
	return out
}

// heads says whether the segments stand at the head of a peer's queue.
func (s *TCPState) heads(peer uint8, segments []uint8) bool {
	for i, segment := range segments {
		if s.Network[peer][i] != segment {
			return false
		}
	}
	return true
}

func (s TCPState) apply(peer uint8, rule *tcpRule) model.Step[TCPState] {
	s.Conn[peer] = rule.to
	switch rule.tcb {
	case tcbCreate:
		s.TCB[peer] = 1
	case tcbDelete:
		s.TCB[peer] = 0
	}
	own := &s.Network[peer]
	n := copy(own[:], own[len(rule.take):])
	clear(own[n:])
	if rule.send != 0 {
		other := &s.Network[1-peer]
		end := 0
		for other[end] != 0 {
			end++
		}
		other[end] = rule.send
	}
	return model.Step[TCPState]{Action: model.Act(rule.action, peer), State: s}
}

// retransmits says whether a segment follows its own copy in a queue.
func (s TCPState) retransmits() bool {
	for _, queue := range s.Network {
		for i := 0; i+1 < len(queue) && queue[i+1] != 0; i++ {
			if queue[i] == queue[i+1] {
				return true
			}
		}
	}
	return false
}

func (s TCPState) fields() (fields []model.Field) {
	for peer, suffix := range [...]string{"[0]", "[1]"} {
		queue := "<"
		for _, segment := range s.Network[peer] {
			if segment != 0 {
				queue += " " + segNames[segment]
			}
		}
		fields = append(fields,
			model.Field{Name: "connstate" + suffix, Value: tcpNames[s.Conn[peer]]},
			model.Field{Name: "tcb" + suffix, Value: []string{"FALSE", "TRUE"}[s.TCB[peer]]},
			model.Field{Name: "network" + suffix, Value: queue + " >"})
	}
	return fields
}
