package replay

import (
	"context"
	"strings"
	"testing"
	"time"

	"microvms/model/tunnel"
)

// lyingTunnel takes some steps otherwise than the model says.
type lyingTunnel struct {
	*tunnelDriver
	lie func(d *tunnelDriver, t Transition[tunnel.State]) bool // true: it did the step itself
}

func (l *lyingTunnel) Do(ctx context.Context, t Transition[tunnel.State]) error {
	if l.lie(l.tunnelDriver, t) {
		return nil
	}
	return l.tunnelDriver.Do(ctx, t)
}

// TestTunnelLies replays with parties that do not what they should, one at a
// time: each must be noticed.
func TestTunnelLies(t *testing.T) {
	only := func(id uint16, f func(d *tunnelDriver, t Transition[tunnel.State])) func(*tunnelDriver, Transition[tunnel.State]) bool {
		return func(d *tunnelDriver, t Transition[tunnel.State]) bool {
			if t.Action.ID != id {
				return false
			}
			f(d, t)
			return true
		}
	}
	nothing := func(*tunnelDriver, Transition[tunnel.State]) {}
	for name, c := range map[string]struct {
		lie  func(*tunnelDriver, Transition[tunnel.State]) bool
		want string // in the failure
	}{
		"a deadline that never passes":           {only(tunnel.ReadyDeadline, nothing), "daemon is done is false"},
		"a handshake that was changed and opens": {only(tunnel.Strip, nothing), "the model says"},
		"a guest's byte that is another": {only(tunnel.GuestSend, func(d *tunnelDriver, t Transition[tunnel.State]) {
			d.s.guest.open().Write([]byte{'z'})
		}), "client got"},
		"an end without its end of stream": {only(tunnel.ClientLocalEof, func(d *tunnelDriver, _ Transition[tunnel.State]) {
			d.s.session.Close()
		}), "the model says"},
		"a frame that gets through": {only(tunnel.Drop, nothing), "to the "},
		"a guest's reset that is an end": {func(d *tunnelDriver, t Transition[tunnel.State]) bool {
			if t.From.Far.Guest == tunnel.Open && t.To.Far.Guest == tunnel.Reset {
				d.s.guest.open().Close()
				return true
			}
			return false
		}, "guest is open"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Tunnel(tunnel.Replays()[0], "liar", inProcess())
			start := s.Start
			s.Start = func(ctx context.Context, initial tunnel.State) (Driver[tunnel.State], error) {
				d, err := start(ctx, initial)
				if err != nil {
					return nil, err
				}
				return &lyingTunnel{d.(*tunnelDriver), c.lie}, nil
			}
			s.StepTimeout, s.MaxFailures = 2*time.Second, 1
			r, err := Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if r.Err() == nil || len(r.Failures) == 0 || !strings.Contains(r.Failures[0], c.want) {
				t.Errorf("not noticed, or for another reason: %v", r.Failures)
			}
		})
	}
}
