package manager

import (
	"os"
	"strconv"
	"testing"

	"microvms/conformance/replay"
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

func TestRunBinary(t *testing.T) {
	judge(t, Spec(configured(t, "replay-binary-one"), "binary", workshop(t), asBinary(t)))
}

func TestRunHeld(t *testing.T) {
	judge(t, Spec(configured(t, "replay-gate-one"), "in-process", workshop(t), inProcess()))
}

func TestPairHeld(t *testing.T) {
	s := Spec(configured(t, "replay-gate-pair"), "in-process", workshop(t), inProcess())
	s.Cover.Abstract = Fine
	judge(t, s)
}

func TestTwoHeld(t *testing.T) {
	s := Spec(configured(t, "replay-gate-two"), "in-process", workshop(t), inProcess())
	s.Cover.Abstract = Coarse
	judge(t, s)
}

func TestTwoBinary(t *testing.T) {
	s := Spec(configured(t, "replay-binary-two"), "binary", workshop(t), asBinary(t))
	s.Cover.Abstract = Coarse
	judge(t, s)
}

func TestWireBinary(t *testing.T) {
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
