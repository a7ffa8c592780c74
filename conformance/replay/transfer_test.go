package replay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/model/transfer"
)

// transferInProcess returns a starter of this repository's daemon in the test
// process.
func transferInProcess() TransferStarter {
	return func(_ context.Context, o TransferOptions) (*Daemon, error) {
		d := &Daemon{Recorder: NewRecorder(), Gate: NewGate(o.Hold)}
		daemon, err := agentd.New(agentd.Config{
			Version: "replay", Log: slog.New(slog.DiscardHandler), Recorder: d.Recorder, Gate: d.Gate,
			Limits: agentd.Limits{
				HeaderTimeout: time.Hour, BodyStallTimeout: time.Hour,
				MaxTarMembers: o.MaxMembers, MaxTarBytes: o.MaxBytes, DiskReserveBytes: o.Reserve,
			},
		})
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		served := make(chan error, 1)
		go func() { served <- daemon.Serve(context.Background(), l) }()
		d.URL = "http://" + l.Addr().String()
		d.Stop = func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return errors.Join(daemon.Shutdown(ctx), <-served)
		}
		return d, nil
	}
}

// TestTransfer replays the extraction of every archive of the model, and of
// some while the guest changes the tree exactly between a check and its use.
func TestTransfer(t *testing.T) {
	claim(t, "FS-10", "FS-13", "FS-15", "FS-16", "FS-17", "FS-19", "FS-20", "FS-23", "FS-24", "FS-25")
	for _, c := range transfer.Replays() {
		t.Run(c.Name, func(t *testing.T) { judge(t, Transfer(c, t.TempDir(), transferInProcess())) })
	}
}

// TestTransferNoticesDeviations replays each deviant model on the honest
// daemon: where the two differ, the replay must say so. It is the same judgement
// as that of a deviant daemon by the specified model.
func TestTransferNoticesDeviations(t *testing.T) {
	for _, d := range transfer.Deviations() {
		c, visible := transfer.DeviantReplay(d)
		if !visible {
			continue
		}
		t.Run(d.Name(), func(t *testing.T) {
			s := Transfer(c, t.TempDir(), transferInProcess())
			s.MaxFailures, s.StepTimeout = 1, 5*time.Second
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

// TestTransferNoticesLies replays on daemons that are each wrong in one way, and
// expects the failure to say how. The first is honest.
func TestTransferNoticesLies(t *testing.T) {
	small := transfer.ReplayCaps()
	for _, c := range []struct {
		name   string
		config transfer.Config
		edit   func(o *TransferOptions)
		lie    lie
		words  string // of the failure; empty for none
	}{
		{name: "honest", config: small},
		{name: "one member more", config: small, edit: func(o *TransferOptions) { o.MaxMembers++ }, words: "the model says"},
		{name: "one byte more", config: small, edit: func(o *TransferOptions) { o.MaxBytes += transferUnit }, words: "the model says"},
		{name: "one byte less", config: small, edit: func(o *TransferOptions) { o.MaxBytes-- }, words: "answer is 413"},
		{name: "no reserve", config: transfer.ReplayNames(), edit: func(o *TransferOptions) { o.Reserve = -1 }, words: "the model says answer 507"},
		{name: "another status", config: small, lie: lie{says: status(413, 400)}, words: "answer is 400"},
		{name: "another name", config: transfer.ReplayNames(), lie: lie{says: replaced(`member "`, `member "x`)}, words: "does not name the member"},
		{name: "other bytes", config: small, lie: lie{asks: body("/tar", "11111111", "11211111")}, words: `"11211111`},
		{name: "another root", config: small, lie: lie{asks: escaping}, words: "tree is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			honest := transferInProcess()
			start := func(ctx context.Context, o TransferOptions) (*Daemon, error) {
				if c.edit != nil {
					c.edit(&o)
				}
				return lying(func(ctx context.Context, _ Options) (*Daemon, error) { return honest(ctx, o) }, c.lie)(ctx, Options{})
			}
			s := Transfer(c.config, t.TempDir(), start)
			s.MaxFailures = 1
			r, err := Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.words == "":
				if err := r.Err(); err != nil {
					t.Error(err)
				}
			case len(r.Failures) == 0 || !strings.Contains(r.Failures[0], c.words):
				t.Errorf("failures %q, want one with %q", r.Failures, c.words)
			}
		})
	}
}

// escaping asks for an extraction beside the root.
func escaping(r *http.Request) {
	q := r.URL.Query()
	if path := q.Get("path"); path != "" {
		q.Set("path", path+"/../d")
		r.URL.RawQuery = q.Encode()
	}
}
