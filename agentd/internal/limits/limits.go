// Package limits holds every size and duration that bounds the daemon (wire
// facts, section 3), so that tests can shorten them together.
package limits

import "time"

// Limits bounds the daemon. A zero field takes its default; a negative one
// means zero, where zero has a meaning of its own (no reserve, no linger, no
// keepalive).
type Limits struct {
	// Connections.
	MaxConnections   int           // admitted at once, upgraded ones included; 128
	HeaderTimeout    time.Duration // complete headers, from connection start or the last answer; 5 s
	EvictionGrace    time.Duration // silence before a connection can make room for a newcomer; 250 ms
	MaxDrainBytes    int64         // read from a refused body to keep its connection; 65536
	DrainTimeout     time.Duration // the same in time; 2 s
	MaxBodyBytes     int64         // control bodies, on the wire; 536870912
	BodyStallTimeout time.Duration // for each 64 KiB of a control body; 10 s
	WriteTimeout     time.Duration // for each 256 KiB of an answer; 30 s
	ShutdownGrace    time.Duration // for requests in flight at shutdown; 8 s

	// Hooks.
	HookBodyBytes   int64         // 32768
	HookBodyTimeout time.Duration // 5 s
	HookLogEntries  int           // 64

	HookHandlerTimeout time.Duration // budget of one handler, its output included; 20 s

	// Execution.
	MaxOutputBytes     int           // kept of each stream for polls; 8388608
	StreamBufferBytes  int           // replay window of an exec, both streams; 1048576
	MaxStdinWriteBytes int           // decoded; 1048576
	OutputLinger       time.Duration // 5 s
	ExecTTL            time.Duration // retention of an acked exec; 900 s
	KillGrace          time.Duration // 10 s
	ScanInterval       time.Duration // between looks at a group; 50 ms
	StdinWriteTimeout  time.Duration // 5 s
	SSEKeepalive       time.Duration // 15 s

	// Tunnels.
	TunnelDialTimeout  time.Duration // for the guest port to accept; 2 s
	TunnelHelloTimeout time.Duration // for the first handshake message, from the upgrade; 10 s
	TunnelReadyTimeout time.Duration // for the ready message, from the reply; 10 s

	// Files.
	DiskReserveBytes int64 // 268435456
	MaxTarMembers    int   // of one archive, extension headers not counted; 100000
	MaxTarBytes      int64 // declared by all members of one archive; 8589934592
}

// WithDefaults returns the limits with zero fields replaced by their defaults
// and negative ones by zero.
func (l Limits) WithDefaults() Limits {
	set(&l.MaxConnections, 128)
	set(&l.HeaderTimeout, 5*time.Second)
	set(&l.EvictionGrace, 250*time.Millisecond)
	set(&l.MaxDrainBytes, 65536)
	set(&l.DrainTimeout, 2*time.Second)
	set(&l.MaxBodyBytes, 536870912)
	set(&l.BodyStallTimeout, 10*time.Second)
	set(&l.WriteTimeout, 30*time.Second)
	set(&l.ShutdownGrace, 8*time.Second)
	set(&l.HookBodyBytes, 32768)
	set(&l.HookBodyTimeout, 5*time.Second)
	set(&l.HookLogEntries, 64)
	set(&l.HookHandlerTimeout, 20*time.Second)
	set(&l.MaxOutputBytes, 8388608)
	set(&l.StreamBufferBytes, 1048576)
	set(&l.MaxStdinWriteBytes, 1048576)
	set(&l.OutputLinger, 5*time.Second)
	set(&l.ExecTTL, 900*time.Second)
	set(&l.KillGrace, 10*time.Second)
	set(&l.ScanInterval, 50*time.Millisecond)
	set(&l.StdinWriteTimeout, 5*time.Second)
	set(&l.SSEKeepalive, 15*time.Second)
	set(&l.TunnelDialTimeout, 2*time.Second)
	set(&l.TunnelHelloTimeout, 10*time.Second)
	set(&l.TunnelReadyTimeout, 10*time.Second)
	set(&l.DiskReserveBytes, 268435456)
	set(&l.MaxTarMembers, 100000)
	set(&l.MaxTarBytes, 8589934592)
	return l
}

func set[T int | int64 | time.Duration](field *T, otherwise T) {
	switch {
	case *field == 0:
		*field = otherwise
	case *field < 0:
		*field = 0
	}
}
