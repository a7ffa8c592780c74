package api

// TunnelSubprotocol is the WebSocket subprotocol that the platform's proxy
// speaks. The daemon echoes it when it is offered and selects no other (wire
// facts, section 10).
const TunnelSubprotocol = "lambda-microvms"

// Close codes of a tunnel (wire facts, section 10.1).
const (
	TunnelNormal          = 1000 // an end that either side asked for
	TunnelBadPort         = 4400 // port 0
	TunnelNoIdentity      = 4401 // a verified tunnel into a VM that was launched without an identity
	TunnelIdentityRefused = 4403 // the handshake or the ready message was refused
	TunnelRelayFailed     = 4500 // reading from the guest failed
	TunnelNoListener      = 4502 // the guest port did not accept in time
)

// TunnelQuery is the query of a tunnel request.
type TunnelQuery struct {
	Port     uint16 `json:"port" schema:"required"`   // of the VM's loopback
	Identity bool   `json:"identity" default:"false"` // a verified tunnel
}
