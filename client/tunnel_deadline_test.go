package client

import (
	"os"
	"testing"
	"time"
)

// TestDeadlineThatWasPutOff puts a deadline off just when it passes: its timer
// has fired, and what it calls has not run yet.
func TestDeadlineThatWasPutOff(t *testing.T) {
	t.Attr("requirement", "TUNNEL-14")
	d := newConnDeadline()
	fired, release, called := make(chan struct{}), make(chan struct{}), make(chan struct{})
	passed, cancel := d.now(), d.cancel
	d.timer = time.AfterFunc(0, func() {
		defer close(called)
		close(fired)
		<-release
		cancel(os.ErrDeadlineExceeded)
	})
	<-fired
	d.set(time.Now().Add(time.Hour))
	defer d.stop()
	close(release)
	<-called
	if passed.Err() == nil {
		t.Error("what waited for the deadline that passed still waits")
	}
	if d.now().Err() != nil {
		t.Error("the deadline that passed ends what waits for the next one")
	}
}
