package bench

import (
	"strconv"

	"microvms/model"
)

// maxRegisterClients is the largest number of clients of [SingleCopyRegister].
const maxRegisterClients = 4

// RegisterState is a state of [SingleCopyRegister]. Values are client+1; 0 is
// the register's first value.
type RegisterState struct {
	Value uint8                     // what the server holds
	Phase [maxRegisterClients]uint8 // where each client's one message is: registerPut to registerDone
	Got   [maxRegisterClients]uint8 // what the server answered to the client's read, from registerGetOK on
	// Seen is the history that linearizability is judged by: how many operations of each other client had returned
	// when the client invoked its read, two bits each.
	Seen [maxRegisterClients]uint8
}

const (
	registerPut   uint8 = iota // Put is on its way to the server
	registerPutOK              // PutOk is on its way back
	registerGet
	registerGetOK
	registerDone
)

// SingleCopyRegister is a register on one server with clients (1 to 4) that each
// write their own value and then read, over a network that neither orders nor
// loses messages. The state holds the history of operations, which must be
// linearizable.
//
// Sources: stateright, examples/single-copy-register.rs (2 clients) and pull
// request 42 (4 clients); 3 clients are measured, checker facts, section 1.1.
func SingleCopyRegister(clients uint8) model.Model[RegisterState] {
	if clients < 1 || clients > maxRegisterClients {
		panic("bench: internal error: the number of clients must be between 1 and 4")
	}
	return model.Model[RegisterState]{
		Name:   "SingleCopyRegister",
		Config: strconv.Itoa(int(clients)),
		Actions: []model.ActionInfo{
			{Name: "DeliverPut", Params: []string{"client"}}, {Name: "DeliverPutOk", Params: []string{"client"}},
			{Name: "DeliverGet", Params: []string{"client"}}, {Name: "DeliverGetOk", Params: []string{"client"}},
		},
		Init: func(out []RegisterState) []RegisterState { return append(out, RegisterState{}) },
		Next: func(s RegisterState, out []model.Step[RegisterState]) []model.Step[RegisterState] {
			for client := range clients {
				if s.Phase[client] != registerDone {
					out = append(out, model.Step[RegisterState]{Action: model.Act(uint16(s.Phase[client]), client), State: s.deliver(client, clients)})
				}
			}
			return out
		},
		Properties: []model.Property[RegisterState]{
			model.Always("linearizable", func(s RegisterState) bool { return s.linearizable(clients, 0, 0, 0) }),
			model.Sometimes("value chosen", func(s RegisterState) bool {
				for client := range clients {
					if s.Phase[client] == registerGetOK && s.Got[client] != 0 {
						return true
					}
				}
				return false
			}),
		},
		CheckDeadlock: true,
		Terminal: func(s RegisterState) bool {
			for client := range clients {
				if s.Phase[client] != registerDone {
					return false
				}
			}
			return true
		},
	}
}

// deliver hands over the one message that a client sent or waits for.
func (s RegisterState) deliver(client, clients uint8) RegisterState {
	switch s.Phase[client] {
	case registerPut:
		s.Value = client + 1
	case registerPutOK:
		for other := range clients {
			if other != client {
				s.Seen[client] |= s.returned(other) << (2 * other)
			}
		}
	case registerGet:
		s.Got[client] = s.Value
	}
	s.Phase[client]++
	return s
}

// returned is the number of a client's operations that have returned: its
// write, then its read.
func (s RegisterState) returned(client uint8) uint8 {
	switch {
	case s.Phase[client] == registerDone:
		return 2
	case s.Phase[client] >= registerGet:
		return 1
	}
	return 0
}

// linearizable says whether the operations that have returned, and any of the
// writes that have not, can be put in an order that explains every read and
// keeps what was over before something began before it. The sets hold the
// clients whose write and read are already in the order, and value is what the
// register holds after them.
func (s RegisterState) linearizable(clients, wrote, read, value uint8) bool {
	rest := false
	for client := range clients {
		done := wrote>>client&1 + read>>client&1
		rest = rest || done < s.returned(client)
	}
	if !rest {
		return true
	}
	for client := range clients {
		if wrote>>client&1 == 0 {
			if s.linearizable(clients, wrote|1<<client, read, client+1) {
				return true
			}
			continue
		}
		if read>>client&1 == 0 && s.returned(client) == 2 && s.Got[client] == value && s.mayRead(clients, client, wrote, read) &&
			s.linearizable(clients, wrote, read|1<<client, value) {
			return true
		}
	}
	return false
}

// mayRead says whether all that had returned when a client invoked its read is
// in the order already.
func (s RegisterState) mayRead(clients, client, wrote, read uint8) bool {
	for other := range clients {
		seen := s.Seen[client] >> (2 * other) & 3
		if seen >= 1 && wrote>>other&1 == 0 || seen >= 2 && read>>other&1 == 0 {
			return false
		}
	}
	return true
}
