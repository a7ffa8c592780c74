package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"microvms/verify"
)

// TestMain lets the test program stand in for the command where the command
// runs itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "peer-server" || os.Args[1] == "produce") {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// fake brings 10 against 8, then 12 against 8, and so on.
func fake(name string) experiment {
	return experiment{name: name, figures: []figure{{"daemon", name, "ms", "a stone", atMost(1.6)}},
		round: func(_ context.Context, r *round) error {
			r.add(name, 10+2*float64(r.number), 8, 0.01)
			return nil
		}}
}

func TestRunRounds(t *testing.T) {
	broken := experiment{name: "broken", figures: []figure{{"daemon", "broken", "ms", "", target{}}},
		round: func(context.Context, *round) error { return errors.New("no such thing") }}
	once := fake("once")
	once.once = true
	silent := experiment{name: "silent", absent: "nothing to read", figures: []figure{{"verification", "silent", "", "", target{}}},
		round: func(context.Context, *round) error { return nil }}
	any := regexp.MustCompile("")
	results, failures := runRounds(context.Background(), []experiment{fake("good"), broken, once, silent}, 5, any, io.Discard)
	if len(failures) != 1 || !strings.Contains(failures[0].Error(), "no such thing") {
		t.Errorf("failures %v, want the broken one once", failures)
	}
	type line struct {
		name    string
		verdict verdict
		ours    float64
		rounds  int
	}
	var got []line
	for _, r := range results {
		got = append(got, line{r.Name, r.Verdict, r.Ours, len(r.Samples)})
	}
	want := []line{{"good", missed, 14, 5}, {"broken", notMeasured, 0, 0}, {"once", met, 10, 1}, {"silent", notMeasured, 0, 0}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("results %v, want %v", got, want)
	}
	if results[1].Why == "" || results[3].Why != "nothing to read" {
		t.Errorf("reasons %q and %q", results[1].Why, results[3].Why)
	}
}

func TestInTurnsAlternates(t *testing.T) {
	var order string
	for n := range 3 {
		r := &round{number: n}
		if err := r.inTurns(func() error { order += "o"; return nil }, func() error { order += "p"; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if order != "oppoop" {
		t.Errorf("order %q", order)
	}
}

func TestTable(t *testing.T) {
	results, _ := runRounds(context.Background(), []experiment{fake("good")}, 5, regexp.MustCompile(""), io.Discard)
	results = append(results,
		result{figure: figure{"verification", "stage", "s", "", alone("≤", 5)}, Verdict: notMeasured, Others: -1, Why: "never ran"},
		result{figure: figure{"verification", "far", "MB/s", "the moon", atLeast(0.85)}, Samples: []sample{{Ours: 3}}, Ours: 3, Verdict: peerNotMeasured})
	var out bytes.Buffer
	if err := writeTable(&out, measureCmd{Rounds: 5}, results); err != nil {
		t.Fatal(err)
	}
	const want = `DAEMON        ours       peer               ratio  target    verdict            others  noisy  peer is
good          14.0 ms    8.00 ms            1.75   ≤ 1.6 ×   missed             0.01    0/5    a stone
VERIFICATION  ours       peer               ratio  target    verdict            others  noisy  peer is
stage         –                                    ≤ 5 s     not measured
far           3.00 MB/s  peer not measured         ≥ 0.85 ×  peer not measured  0.00    0/1    the moon

5 rounds; medians of the quiet ones. others: cores that other processes took; above 0.2 a round is noisy.
stage: not measured: never ran
`
	if out.String() != want {
		t.Errorf("table\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := writeJSON(&out, measureCmd{Rounds: 5}, results); err != nil {
		t.Fatal(err)
	}
	var all struct{ Figures []jsonFigure }
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all.Figures) != 3 || len(all.Figures[0].Rounds) != 5 ||
		all.Figures[0].Ratio != 1.75 || all.Figures[0].Verdict != missed || all.Figures[1].Others != nil {
		t.Errorf("JSON %+v, %v", all, err)
	}
}

func TestReportFigures(t *testing.T) {
	r := verify.Report{
		Seconds: 200,
		Stages:  []verify.Stage{{Name: "models", Seconds: 50}},
		Replays: []verify.Replay{
			{Transitions: 4000, Replayed: 3900, Skips: []verify.ReplaySkip{{Transitions: 100}}},
			{Transitions: 1000, Replayed: 1000},
		},
		Histories: []verify.History{{Histories: 1500}, {Histories: 1000, Undecided: 1}},
	}
	want := map[string]float64{stageNamePrefix + "models": 50, replayedName: 4900, skippedName: 2, unskippedName: 100, historiesName: 2500, undecidedName: 1}
	if got := reportFigures(&r); !reflect.DeepEqual(got, want) {
		t.Errorf("figures %v, want %v", got, want)
	}
	for _, s := range stageBounds[:1] {
		r.Stages = append(r.Stages, verify.Stage{Name: s.name})
	}
	for _, s := range stageBounds[2:] {
		r.Stages = append(r.Stages, verify.Stage{Name: s.name})
	}
	if got := reportFigures(&r); got[verifyName] != 200 {
		t.Errorf("a whole run took %v", got[verifyName])
	}
	if got := reportFigures(&verify.Report{}); len(got) != 0 {
		t.Errorf("an empty report has figures: %v", got)
	}
}

// TestFiguresAreDeclaredOnce: an experiment that adds a name it does not
// declare would be measured for nothing.
func TestFiguresAreDeclaredOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range experiments(&workshop{}) {
		if len(e.figures) == 0 || e.round == nil {
			t.Errorf("%s measures nothing", e.name)
		}
		for _, f := range e.figures {
			if seen[f.id()] {
				t.Errorf("%s is there twice", f.id())
			}
			seen[f.id()] = true
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--only", "("}, {"--only", "no figure has this name", "--root", "../../.."}, {"--rounds", "0"}, {"--nonsense"}} {
		var stderr bytes.Buffer
		if code := run(context.Background(), args, io.Discard, &stderr); code != exitUsage || stderr.Len() == 0 {
			t.Errorf("run(%q) = %d, %q", args, code, stderr.String())
		}
	}
	var stderr bytes.Buffer
	if code := run(context.Background(), []string{"--root", t.TempDir()}, io.Discard, &stderr); code != exitNotMeasured {
		t.Errorf("outside of the repository: %d, %q", code, stderr.String())
	}
}
