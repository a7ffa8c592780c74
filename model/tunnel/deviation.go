package tunnel

// Deviation is one deliberate fault, planted in the rule so that the properties
// can be seen to notice it.
type Deviation uint8

// The deviations.
const (
	Specified Deviation = iota

	DaemonPinOff        // any handshake is accepted
	ClientPinOff        // any reply is accepted
	DialBeforeHandshake // the guest port is dialed when the first message comes in
	NoNonce             // a sealed frame opens at any position
	NoEndOfStream       // the daemon ends without an end of stream and offers none
	CloseIsClean        // the client takes any close for the end
	CloseEndsGuest      // a caller that vanishes ends the guest's connection normally
	OfferInClear        // the offers travel unauthenticated

	DialOnHandshake   // the guest port is dialed before the ready message
	ReadyRelayed      // the ready message is relayed as data
	PrologueOmitsPort // the handshake does not bind the port
	NoReadyDeadline   // a caller that is never ready is waited for
	NoReadyNeeded     // user data takes the place of the ready message
	LateIsReady       // the ready deadline lets the tunnel go on

	deviations
)

// Deviations returns every deviation, in order. The slice is fresh.
func Deviations() []Deviation {
	var out []Deviation
	for d := Specified + 1; d < deviations; d++ {
		out = append(out, d)
	}
	return out
}

// Name returns the deviation's name in reports.
func (d Deviation) Name() string { return deviationTexts[d].name }

// String describes the deviation in a phrase; it is empty for Specified.
func (d Deviation) String() string { return deviationTexts[d].text }

var deviationTexts = [deviations]struct{ name, text string }{
	Specified:           {"specified", ""},
	DaemonPinOff:        {"daemon-pin-off", "the daemon accepts a handshake of any host"},
	ClientPinOff:        {"client-pin-off", "the client accepts a reply of any far end"},
	DialBeforeHandshake: {"dial-before-handshake", "the guest port is dialed before the handshake is judged"},
	NoNonce:             {"no-nonce", "a sealed frame opens at any position"},
	NoEndOfStream:       {"no-end-of-stream", "the daemon ends without an end of stream and offers none"},
	CloseIsClean:        {"close-is-clean", "the client takes any close for the end of the stream"},
	CloseEndsGuest:      {"close-ends-guest", "a caller that vanishes ends the guest's connection normally"},
	OfferInClear:        {"offer-in-clear", "the offers of an end of stream travel unauthenticated"},
	DialOnHandshake:     {"dial-on-handshake", "the guest port is dialed before the ready message"},
	ReadyRelayed:        {"ready-relayed", "the ready message is relayed to the guest as data"},
	PrologueOmitsPort:   {"prologue-omits-port", "the handshake does not bind the guest port"},
	NoReadyDeadline:     {"no-ready-deadline", "a caller that is never ready is waited for"},
	NoReadyNeeded:       {"no-ready-needed", "user data takes the place of the ready message"},
	LateIsReady:         {"late-is-ready", "the ready deadline lets the tunnel go on"},
}
