package tunnel

// Caller says whose keys the client holds.
type Caller uint8

// The callers.
const (
	Launcher    Caller = iota // the pinned host key
	TokenHolder               // the bearer alone, with a key of its own
)

// Config is one configuration of the model.
type Config struct {
	Name      string
	Deviation Deviation

	Caller   Caller
	Impostor bool // the far end is not the VM
	Budget   uint8
	// Guest and CallerBytes are what each side has to send.
	Guest, CallerBytes uint8

	// Ready adds protocol 2: the ready message before the dial, both deadlines,
	// the prologue's port, and handshake messages changed in flight.
	Ready bool
	// Live states that both ends finish under a fair path.
	Live bool
	// OldDaemon and OldClient offer no end of stream.
	OldDaemon, OldClient bool
	// ServedPort is the port that the daemon was asked for in the query, 1 when
	// zero; the client's handshake is for port 1. They differ when the path
	// changes the query.
	ServedPort uint8
}

func (c *Config) servedPort() uint8 {
	if c.ServedPort == 0 {
		return clientPort
	}
	return c.ServedPort
}

const clientPort = 1

func (c *Config) daemonOffers() bool { return !c.OldDaemon && c.Deviation != NoEndOfStream }
func (c *Config) clientOffers() bool { return !c.OldClient }
