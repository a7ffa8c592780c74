package tunnel

// send queues a frame and lets the path see it. What is sent after a hang-up
// reaches nobody; in the published structure it still did, which changes no
// verdict.
func (c *Config) send(s *State, d Dir, f Frame) {
	if s.HungUp && c.Ready {
		return
	}
	s.Seen[d].add(f)
	s.Flight[d].push(f)
}

func (c *Config) sealFar(s *State, item uint8) {
	session := realSession
	if c.Impostor {
		session = impostorSession
	}
	c.send(s, ToClient, Frame{Kind: Sealed, A: session, B: s.Far.NextOut, C: item})
	s.Far.NextOut++
}

func (c *Config) sealClient(s *State, item uint8) {
	c.send(s, ToFar, Frame{Kind: Sealed, A: s.Client.Session, B: s.Client.NextOut, C: item})
	s.Client.NextOut++
}

var (
	normalClose  = Frame{Kind: CloseFrame}
	refusalClose = Frame{Kind: CloseFrame, A: 1}
)

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// farDeliver is the far end's reading of one frame; hungUp reads the end of the
// connection.
func (c *Config) farDeliver(s *State, f Frame, hungUp bool) {
	d := &s.Far
	if d.Done {
		return
	}
	if hungUp || f.Kind == CloseFrame {
		if c.Ready && !hungUp {
			c.send(s, ToClient, normalClose) // a close frame is answered with one
		}
		c.farLost(s)
		return
	}
	switch f.Kind {
	case HelloFrame, Mangled:
		if d.Established {
			c.farForged(s)
			return
		}
		c.farHello(s, f)
	case Sealed:
		if !d.Established {
			// The first message is no handshake: refused like any other.
			c.farRefuse(s)
			return
		}
		c.farSealed(s, f)
	default:
		c.farLost(s)
	}
}

func (c *Config) farHello(s *State, f Frame) {
	d := &s.Far
	right := f.Kind == HelloFrame && f.A == 1
	if c.Deviation == DaemonPinOff {
		right = f.Kind == HelloFrame
	}
	if f.C != c.servedPort() && c.Deviation != PrologueOmitsPort {
		right = false // the prologue differs, so the message opens for nobody
	}
	if c.Impostor {
		right = true
	}
	if c.Deviation == DialBeforeHandshake {
		d.Dialed, d.DialedPort = true, c.servedPort()
	}
	if !right {
		c.farRefuse(s)
		return
	}
	d.Established, d.CallerOffered = true, f.B == 1
	session := realSession
	if c.Impostor {
		session = impostorSession
	}
	c.send(s, ToClient, Frame{Kind: ReplyFrame, A: session, B: bit(c.daemonOffers())})
	if !c.Ready || c.Deviation == DialOnHandshake {
		d.Dialed, d.DialedPort = true, c.servedPort()
	}
}

func (c *Config) farRefuse(s *State) {
	s.Far.Refused, s.Far.Done = true, true
	c.send(s, ToClient, refusalClose)
}

func (c *Config) farSealed(s *State, f Frame) {
	d := &s.Far
	session := realSession
	if c.Impostor {
		session = impostorSession
	}
	if f.A != session || (f.B != d.NextIn && c.Deviation != NoNonce) {
		c.farForged(s)
		return
	}
	if c.Ready && !d.Ready && c.Deviation != NoReadyNeeded {
		if f.C != readyItem {
			c.farRefuse(s)
			return
		}
		d.Ready = true
		d.NextIn++
		if !d.Dialed {
			d.Dialed, d.DialedPort = true, c.servedPort()
		}
		if c.Deviation == ReadyRelayed {
			d.GuestReceived.add(readyItem)
		}
		return
	}
	d.NextIn++
	switch {
	case f.C == endItem:
		d.Guest, d.Done = Eof, true
		c.send(s, ToClient, normalClose)
	case c.Impostor:
		d.Stolen.add(f.C)
	default:
		if c.Deviation == NoReadyNeeded && !d.Dialed {
			d.Dialed, d.DialedPort = true, c.servedPort()
		}
		d.GuestReceived.add(f.C)
	}
}

// farForged is a frame that does not authenticate at its position.
func (c *Config) farForged(s *State) {
	if c.Ready && !s.Far.Ready && c.Deviation != NoReadyNeeded {
		c.farRefuse(s)
		return
	}
	c.farLost(s)
}

// farLost is a caller that vanished: by a close, a hang-up or a frame that is
// out of place.
func (c *Config) farLost(s *State) {
	d := &s.Far
	d.Done = true
	if !d.Established || c.Impostor {
		return
	}
	if !d.Dialed {
		return // there is no guest connection to end
	}
	d.Guest = Eof
	if d.CallerOffered && c.daemonOffers() && c.Deviation != CloseEndsGuest {
		d.Guest = Reset
	}
	if !c.Ready {
		c.send(s, ToClient, normalClose) // the daemon itself just leaves
	}
}

// clientDeliver is the client's reading of one frame.
func (c *Config) clientDeliver(s *State, f Frame, hungUp bool) {
	k := &s.Client
	if k.Phase == Done || k.Phase == Idle {
		return // an idle client has no connection yet
	}
	end := func(e End) { k.Phase, k.End = Done, e }
	if hungUp || f.Kind == CloseFrame {
		if c.Ready && !hungUp {
			c.send(s, ToFar, Frame{Kind: CloseFrame, A: f.A}) // answered with one
		}
		switch {
		case !hungUp && f.A == 1:
			end(Refused)
		case k.Phase != Relaying:
			end(Failed)
		case c.Deviation == CloseIsClean:
			end(Closed)
		case k.FarOffered:
			end(Truncated)
		default:
			end(ClosedUnproven)
		}
		return
	}
	switch {
	case f.Kind == ReplyFrame && k.Phase == Hello && (f.A == realSession || c.Deviation == ClientPinOff):
		k.Phase, k.FarOffered, k.Session = Relaying, f.B == 1, f.A
		if c.Ready {
			c.sealClient(s, readyItem)
		}
	case f.Kind == Sealed && k.Phase == Relaying && f.A == k.Session && (f.B == k.NextIn || c.Deviation == NoNonce):
		k.NextIn++
		if f.C == endItem && c.OldClient {
			return // a client that knows no end of stream takes it for no bytes
		}
		if f.C == endItem {
			end(Closed)
			return
		}
		k.Received.add(f.C)
	default:
		end(Failed)
	}
}
