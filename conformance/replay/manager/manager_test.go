package manager

import (
	"os"
	"strconv"
	"testing"
	"time"

	"microvms/conformance/replay"
	"microvms/model"
	"microvms/model/manager"
)

// claim names the requirements that a replay shows on a real manager.
func claim(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		t.Attr("requirement", id)
	}
}

// judge runs a replay, writes its result and fails the test on anything that was
// not replayed. REPLAY_PATH=n replays the path with that number alone.
func judge[S comparable](t *testing.T, s replay.Spec[S]) *replay.Result {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("REPLAY_PATH")); err == nil {
		s.Only = n
	}
	r, err := replay.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	for _, f := range r.Failures {
		t.Errorf("%s\nREPLAY_PATH=<number of the path> replays it alone", f)
	}
	if err := r.Write(s.Name); err != nil {
		t.Error(err)
	}
	if err := r.Err(); err != nil && s.Only == 0 {
		t.Error(err)
	}
	return r
}

func configured(t *testing.T, name string) manager.Config {
	t.Helper()
	for _, c := range manager.Replays() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the model has no configuration %q", name)
	return manager.Config{}
}

// TestRunBinary replays one run on the manager's binary: every transition of a
// run, a connection, a token, a restart and a disconnect.
func TestRunBinary(t *testing.T) {
	claim(t, "MGR-1", "MGR-2", "MGR-3", "MGR-4", "MGR-5", "MGR-6", "MGR-7", "MGR-8", "MGR-9", "MGR-10", "MGR-13",
		"MGR-14", "MGR-16", "MGR-17", "MGR-18", "MGR-19", "MGR-20", "MGR-21", "MGR-22", "MGR-24", "MGR-25", "MGR-26",
		"MGR-27", "MGR-28", "MGR-29")
	t.Parallel()
	s := Spec(configured(t, "replay-binary-one"), "binary", workshop(t), asBinary(t))
	transitions(&s)
	judge(t, s)
}

// TestTwoBinary replays two runs that share a permit and two connections.
func TestTwoBinary(t *testing.T) {
	claim(t, "MGR-1", "MGR-2", "MGR-3", "MGR-4", "MGR-5", "MGR-6", "MGR-7", "MGR-8", "MGR-9", "MGR-10", "MGR-11",
		"MGR-12", "MGR-13", "MGR-14", "MGR-17", "MGR-18", "MGR-19", "MGR-20", "MGR-21", "MGR-22", "MGR-24", "MGR-27",
		"MGR-28", "MGR-29")
	t.Parallel()
	s := Spec(configured(t, "replay-binary-two"), "binary", workshop(t), asBinary(t))
	s.Cover.Abstract = Coarse
	judge(t, s)
}

// TestRunHeld replays one run with the manager held before each of its own
// steps: every transition of a run, a connection, a token, a restart and a
// disconnect.
func TestRunHeld(t *testing.T) {
	claim(t, "MGR-1", "MGR-2", "MGR-3", "MGR-4", "MGR-5", "MGR-6", "MGR-7", "MGR-8", "MGR-9", "MGR-10", "MGR-11",
		"MGR-12", "MGR-13", "MGR-14", "MGR-15", "MGR-16", "MGR-17", "MGR-18", "MGR-19", "MGR-20", "MGR-21", "MGR-22",
		"MGR-23", "MGR-24", "MGR-25", "MGR-27", "MGR-28", "MGR-29")
	t.Parallel()
	s := Spec(configured(t, "replay-gate-one"), "in-process", workshop(t), inProcess())
	transitions(&s)
	judge(t, s)
}

// TestPairHeld replays one run and two connections of a held manager.
func TestPairHeld(t *testing.T) {
	claim(t, "MGR-1", "MGR-2", "MGR-3", "MGR-4", "MGR-5", "MGR-6", "MGR-7", "MGR-8", "MGR-9", "MGR-10", "MGR-11",
		"MGR-12", "MGR-13", "MGR-14", "MGR-15", "MGR-16", "MGR-17", "MGR-18", "MGR-19", "MGR-20", "MGR-21", "MGR-22",
		"MGR-23", "MGR-24", "MGR-27", "MGR-28", "MGR-29")
	t.Parallel()
	s := Spec(configured(t, "replay-gate-pair"), "in-process", workshop(t), inProcess())
	fine(&s)
	judge(t, s)
}

// TestTwoHeld replays two runs and two connections of a held manager.
func TestTwoHeld(t *testing.T) {
	claim(t, "MGR-1", "MGR-2", "MGR-3", "MGR-4", "MGR-5", "MGR-6", "MGR-7", "MGR-8", "MGR-9", "MGR-10", "MGR-11",
		"MGR-12", "MGR-13", "MGR-14", "MGR-17", "MGR-18", "MGR-19", "MGR-20", "MGR-21", "MGR-22", "MGR-24", "MGR-27",
		"MGR-28", "MGR-29")
	t.Parallel()
	s := Spec(configured(t, "replay-gate-two"), "in-process", workshop(t), inProcess())
	s.Cover.Abstract = Coarse
	judge(t, s)
}

// TestClock replays deadlines and retentions of two runs that nothing holds back.
func TestClock(t *testing.T) {
	claim(t, "MGR-1", "MGR-2", "MGR-3", "MGR-4", "MGR-5", "MGR-6", "MGR-7", "MGR-8", "MGR-9", "MGR-10", "MGR-11",
		"MGR-12", "MGR-13", "MGR-14", "MGR-15", "MGR-17", "MGR-18", "MGR-19", "MGR-20", "MGR-21", "MGR-22", "MGR-23",
		"MGR-24", "MGR-27", "MGR-29")
	t.Parallel()
	s := Spec(configured(t, "replay-clock"), "in-process", workshop(t), inProcess())
	s.Cover.Abstract = Coarse
	judge(t, s)
}

// TestDeadlineInRealTime lets the deadline of a run pass on the binary.
func TestDeadlineInRealTime(t *testing.T) {
	claim(t, "MGR-15")
	t.Parallel()
	c := configured(t, "replay-clock")
	c.Name = "replay-clock-deadline"
	running := func(s manager.State) bool {
		for _, r := range s.Runs {
			if r.Phase >= manager.Queued && r.Phase <= manager.Draining {
				return true
			}
		}
		return false
	}
	run := model.Act(manager.ActRun, 0, 0, uint8(manager.Plain))
	read := model.Act(manager.ActDeliver, 0)
	judge(t, replay.InRealTime(Spec(c, "binary", workshop(t), inRealTime(t, time.Second, 0)), running,
		[]model.Action{run, model.Act(manager.ActDeadline, 0), read, read, read},
	))
}

// TestExpiryInRealTime lets a retention pass on the binary.
func TestExpiryInRealTime(t *testing.T) {
	claim(t, "MGR-19", "MGR-23")
	t.Parallel()
	c := configured(t, "replay-clock")
	c.Name = "replay-clock-expiry"
	kept := func(s manager.State) bool {
		for _, r := range s.Runs {
			if r.Phase == manager.Finished || r.Phase == manager.Failed {
				return true
			}
		}
		return false
	}
	judge(t, replay.InRealTime(Spec(c, "binary", workshop(t), inRealTime(t, 0, time.Second)), kept,
		[]model.Action{model.Act(manager.ActRun, 0, 0, uint8(manager.Invalid)), model.Act(manager.ActExpire, 0)},
		[]model.Action{model.Act(manager.ActRun, 0, 0, uint8(manager.Plain)), model.Act(manager.ActExecutorExit, 0), model.Act(manager.ActExpire, 0)},
	))
}

// TestWireBinary replays every kind of message on connections to the binary.
func TestWireBinary(t *testing.T) {
	claim(t, "SOCKET-7", "SOCKET-8", "SOCKET-9", "SOCKET-10", "SOCKET-11", "SOCKET-12", "SOCKET-13", "SOCKET-15",
		"SOCKET-19", "SOCKET-21", "SOCKET-25")
	t.Parallel()
	shop := workshop(t)
	m, err := asBinary(t)(t.Context(), Options{Executors: shop.Executors(), MaxMessageBytes: WireLimit})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		m.Stop()
		if err := m.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	s, err := Wire(t.Context(), m, "binary", shop)
	if err != nil {
		t.Fatal(err)
	}
	judge(t, s)
}
