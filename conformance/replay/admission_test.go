package replay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/model/admission"
)

// admissionInProcess returns a starter of this repository's daemon in the test
// process, over sockets whose deadlines the driver moves.
func admissionInProcess() AdmissionStarter {
	return func(_ context.Context, o AdmissionOptions) (*AdmissionDaemon, error) {
		d := &AdmissionDaemon{Daemon: &Daemon{Recorder: NewRecorder(), Gate: NewGate(o.Hold), Clock: NewClock(epoch)}}
		daemon, err := agentd.New(agentd.Config{
			Version: "replay", Log: slog.New(slog.DiscardHandler), Recorder: d.Recorder, Gate: d.Gate, Clock: d.Clock,
			Limits: agentd.Limits{
				MaxConnections: o.Slots, EvictionGrace: o.Grace, HeaderTimeout: o.HeaderTimeout, HookBodyTimeout: o.HookTimeout,
				DrainTimeout: o.DrainTimeout, BodyStallTimeout: o.UploadTimeout, WriteTimeout: o.AnswerTimeout,
				HookBodyBytes: o.HookBytes, MaxDrainBytes: o.DrainBytes, MaxBodyBytes: o.BodyBytes,
			},
		})
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		d.Sockets = NewSockets(l)
		served := make(chan error, 1)
		go func() { served <- daemon.Serve(context.Background(), d.Sockets) }()
		d.URL = "http://" + l.Addr().String()
		d.Stop = func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return errors.Join(daemon.Shutdown(ctx), <-served)
		}
		return d, nil
	}
}

// TestAdmission replays how connections get and lose their slots, and what each
// kind of body may cost, over real sockets.
func TestAdmission(t *testing.T) {
	claim(t, "XPORT-4", "XPORT-5", "XPORT-6", "XPORT-7", "XPORT-8", "XPORT-9", "XPORT-10", "XPORT-17",
		"XPORT-30", "XPORT-31", "XPORT-32", "AUTHZ-4")
	for _, c := range admission.Replays() {
		t.Run(c.Name, func(t *testing.T) { judge(t, Admission(c, admissionInProcess())) })
	}
}

// TestAdmissionNoticesDeviations replays each deviant model on the honest
// daemon: where the two differ, the replay must say so.
func TestAdmissionNoticesDeviations(t *testing.T) {
	for _, d := range admission.Deviations() {
		c, visible := admission.DeviantReplay(d)
		if !visible {
			continue
		}
		t.Run(d.Name(), func(t *testing.T) {
			t.Parallel()
			s := Admission(c, admissionInProcess())
			s.MaxFailures, s.StepTimeout = 1, 2*time.Second // a daemon that does not go where a deviant model says never will
			r, err := Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Failures) == 0 {
				t.Errorf("the replay did not notice that %s", d)
			}
		})
	}
}

// TestAdmissionNoticesLimits replays on daemons that are each set up in a wrong
// way, and expects the failure to say how.
func TestAdmissionNoticesLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		config admission.Config
		edit   func(o *AdmissionOptions)
		words  string
	}{
		{"a slot more", admission.ReplaySlots(), func(o *AdmissionOptions) { o.Slots++ }, ""},
		{"a slot less", admission.ReplaySlots(), func(o *AdmissionOptions) { o.Slots-- }, ""},
		{"another header deadline", admission.ReplayBodies(), func(o *AdmissionOptions) { o.HeaderTimeout = drainHours }, "want read deadline 1h0m0s"},
		{"another hook deadline", admission.ReplayBodies(), func(o *AdmissionOptions) { o.HookTimeout = drainHours }, "want read deadline 2h0m0s"},
		{"another drain deadline", admission.ReplayBodies(), func(o *AdmissionOptions) { o.DrainTimeout = hookHours }, "want read deadline 3h0m0s"},
		{"a longer hook body", admission.ReplayBodies(), func(o *AdmissionOptions) { o.HookBytes += admissionUnit }, "the model says 413"},
		{"a shorter drain", admission.ReplayBodies(), func(o *AdmissionOptions) { o.DrainBytes -= admissionUnit }, ""},
		{"a longer drain", admission.ReplayBodies(), func(o *AdmissionOptions) { o.DrainBytes += admissionUnit }, ""},
		{"another upload deadline", admission.ReplayBodies(), func(o *AdmissionOptions) { o.UploadTimeout = hookHours }, "want read deadline 4h0m0s"},
		{"another answer deadline", admission.ReplayBodies(), func(o *AdmissionOptions) { o.AnswerTimeout = hookHours }, "want write deadline 5h0m0s"},
		{"a shorter grace", admission.ReplaySlots(), func(o *AdmissionOptions) { o.Grace /= 2 }, ""},
		{"a longer grace", admission.ReplaySlots(), func(o *AdmissionOptions) { o.Grace *= 2 }, ""},
		{"a larger body", admission.ReplayBodies(), func(o *AdmissionOptions) { o.BodyBytes++ }, "the model says 413"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			honest := admissionInProcess()
			s := Admission(c.config, func(ctx context.Context, o AdmissionOptions) (*AdmissionDaemon, error) {
				c.edit(&o)
				return honest(ctx, o)
			})
			s.MaxFailures = 1
			var failures []string
			// Looked at again with more time: on a busy machine a right step can be late, and comes to be what fails.
			for _, s.StepTimeout = range []time.Duration{4 * time.Second, time.Minute} {
				r, err := Run(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				if failures = r.Failures; slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, c.words) }) {
					return
				}
			}
			t.Errorf("failures %q, want one with %q", failures, c.words)
		})
	}
}
