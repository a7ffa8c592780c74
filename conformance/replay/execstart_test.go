package replay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"microvms/agentd"
	"microvms/model/execstart"
)

// startInProcess returns a starter of this repository's daemon in the test
// process, over the files of a guest. Time passes by itself: nothing here waits
// for it.
func startInProcess() StartStarter {
	return func(_ context.Context, o StartOptions) (*Daemon, error) {
		d := &Daemon{Recorder: NewRecorder(), Gate: NewGate(o.Hold)}
		daemon, err := agentd.New(agentd.Config{
			Version: "replay", Log: slog.New(slog.DiscardHandler), Recorder: d.Recorder, Gate: d.Gate,
			Environ: o.Environ, PasswdPath: o.PasswdPath, GroupPath: o.GroupPath, ImageUserPath: o.RecordPath,
			DefaultUser: o.DefaultUser, PreserveImageUser: o.PreserveImageUser,
			Limits: agentd.Limits{HeaderTimeout: time.Hour},
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

// house makes the children's folder where every user can reach it, or skips: a
// child that runs as another user is started by root only.
func house(t *testing.T) *StartHouse {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can start children as other users")
	}
	for dir := os.TempDir(); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o001 == 0 {
			t.Skipf("other users cannot traverse %s, below which temporary files are", dir)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	h, err := NewStartHouse(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(h.Dir); err != nil {
			t.Error(err)
		}
	})
	return h
}

// TestExecStart replays how a start becomes a child: every shape of user and
// group under every image, every shell under every choice of layers, and
// requests that overlap on one id while a row comes and goes. The children run
// as other users and say what they are.
func TestExecStart(t *testing.T) {
	claim(t, "AGENTD-7", "AGENTD-8", "AGENTD-9", "AGENTD-10", "AGENTD-11", "AGENTD-12", "AGENTD-13", "AGENTD-14", "AGENTD-15", "AGENTD-16",
		"ACCOUNT-1", "ACCOUNT-2", "ACCOUNT-3", "ACCOUNT-4", "ACCOUNT-5", "ACCOUNT-6", "ACCOUNT-9", "ACCOUNT-11",
		"EXEC-2", "EXEC-3", "EXEC-4", "EXEC-6", "EXEC-38")
	h := house(t)
	for _, c := range execstart.Replays() {
		t.Run(c.Name, func(t *testing.T) { judge(t, ExecStart(c, h, startInProcess())) })
	}
}
