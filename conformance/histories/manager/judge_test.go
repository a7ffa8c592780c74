package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"microvms/conformance/histories"
)

// life is a run of connection 0 from its request to its end.
func life(id uint64) []func(*builder) {
	return steps(runs(0, Quick, id), event(0, isStarted(id)), event(0, isEnded(id, "exited")))
}

// killed is a run of connection 0 that is cancelled.
func killed(id uint64) []func(*builder) {
	return steps(runs(0, Hang, id), event(0, isStarted(id)), asks(0, Cancel, id, ""), event(0, isEnded(id, "cancelled")))
}

// sound are small histories in which nothing is wrong.
var sound = map[string][]func(*builder){
	"a life":                       all(life(1), steps(reads(0, 1, "text"), reads(1, 1, "text"), asks(0, Ack, 1, ""), asks(0, Ack, 1, unknownID), asks(1, Read, 1, unknownID))),
	"a kill":                       killed(1),
	"a cancel in the queue":        steps(runs(0, Hang, 1), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled")), reads(0, 1, "")),
	"a refusal":                    steps(runs(0, Refused, 1), event(0, isFailed(1)), asks(0, Read, 1, unknownID), asks(0, Ack, 1, "")),
	"a failed spawn":               steps(runs(0, Missing, 1), event(0, isFailed(1)), attaches(1, isFailed(1))),
	"a repeat":                     all(steps(runs(0, Quick, 1), runs(1, Refused, 1), event(0, isStarted(1)), event(1, isStarted(1)), event(0, isEnded(1, "exited")), event(1, isEnded(1, "exited"))), steps(runs(1, Hang, 1))),
	"a repeat after the end":       all(life(1), steps(runs(1, Quick, 1), event(1, isEnded(1, "exited")))),
	"a fresh run after an ack":     all(life(1), steps(asks(0, Ack, 1, "")), life(2)),
	"an ack too early":             steps(runs(0, Hang, 1), asks(1, Ack, 1, notFinished), asks(1, Cancel, 1, ""), event(0, isEnded(1, "cancelled"))),
	"snapshots":                    steps(runs(0, Hang, 1), attaches(1, isQueued(1)), event(1, isStarted(1)), attaches(1, isStarted(1)), event(0, isStarted(1)), asks(0, Cancel, 1, ""), event(1, isEnded(1, "cancelled")), attaches(1, isEnded(1, "cancelled")), event(0, isEnded(1, "cancelled"))),
	"a late attach":                all(life(1), steps(attaches(1, isEnded(1, "exited")), attaches(1, isEnded(1, "exited")))),
	"an old boot":                  steps(cutOff(0, Operation{Kind: Run, Token: "a", Program: Hang}), boots(1), asks(1, Attach, 1, bootMismatch), tampers(func(h *History) { h.Operations[1].Boot = 0 }), runs(1, Refused, 1), event(1, isFailed(1))),
	"a shutdown":                   steps(runs(0, Hang, 1), event(0, isStarted(1)), shuts, event(0, isEnded(1, "shutdown"))),
	"a refusal by a shutdown":      steps(shuts, func(b *builder) { b.add(Operation{Kind: Run, Token: "a", Answer: &Answer{Code: internal}}) }),
	"a repeat in a shutdown":       steps(runs(0, Hang, 1), event(0, isStarted(1)), shuts, runs(1, Hang, 1), event(1, isStarted(1)), event(0, isEnded(1, "shutdown")), event(1, isEnded(1, "shutdown"))),
	"a repeat of a cut run in one": steps(cutOff(1, Operation{Kind: Run, Token: "a", Program: Hang}), shuts, runs(0, Hang, 1), event(0, isEnded(1, "shutdown"))),
	"a cut run refused": steps(shuts, cutOff(1, Operation{Kind: Run, Token: "a", Program: Hang}), func(b *builder) {
		b.h.Operations[len(b.h.Operations)-1].Return = b.time + 5
		b.add(Operation{Kind: Run, Token: "a", Answer: &Answer{Code: internal}})
	}),
	"a cut ack may count":            all(life(1), steps(cutOff(1, Operation{Kind: Ack, Run: 1})), life(2)),
	"a cut ack may count late":       all(life(1), steps(cutOff(1, Operation{Kind: Ack, Run: 1}), reads(0, 1, "text")), life(2)),
	"a cut run may be somebody's":    steps(cutOff(1, Operation{Kind: Run, Token: "a", Program: Quick, Text: "text"}), runs(0, Refused, 1), event(0, isStarted(1)), event(0, isEnded(1, "exited"))),
	"a cut run may never be":         all(steps(cutOff(1, Operation{Kind: Run, Token: "a", Program: Hang})), life(1)),
	"a cut cancel may count":         steps(runs(0, Hang, 1), cutOff(1, Operation{Kind: Cancel, Run: 1}), event(0, isEnded(1, "cancelled"))),
	"an id that a cut run took":      steps(cutOff(1, Operation{Kind: Run, Bare: true, Program: Hang}), bare(0, Refused, 2), event(0, nobody(isFailed(2)))),
	"queued behind a cancel":         steps(runs(0, Quick, 1), attaches(1, isQueued(1)), asks(0, Cancel, 1, ""), attaches(1, isQueued(1)), event(0, isEnded(1, "cancelled")), event(1, isEnded(1, "cancelled"))),
	"a connection that left unaware": steps(runs(0, Hang, 1), tampers(func(h *History) { h.Conns[0].Ending = Cutoff })),

	"a lost ack too early, then another": steps(runs(0, Hang, 1), lost(1, Operation{Kind: Ack, Run: 1}), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled")),
		lost(2, Operation{Kind: Ack, Run: 1}), asks(0, Ack, 1, unknownID)),
	"a lost ack too early, then a cut one": all(steps(runs(0, Hang, 1), lost(1, Operation{Kind: Ack, Run: 1}), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled")),
		cutOff(2, Operation{Kind: Ack, Run: 1}), reads(0, 1, "text")), life(2)),
	"a cut ack, then a lost one too early": steps(runs(0, Hang, 1), cutOff(2, Operation{Kind: Ack, Run: 1}), lost(1, Operation{Kind: Ack, Run: 1}), asks(0, Cancel, 1, ""),
		event(0, isEnded(1, "cancelled")), asks(0, Read, 1, unknownID)),
}

// unsound are what a manager with a real mistake would show, with the words that
// name it. Where the search finds it, the words are its own.
var unsound = map[string]struct {
	steps []func(*builder)
	says  string
}{
	"a doubled ending":              {all(life(1), steps(event(0, isEnded(1, "exited")))), "behind its end"},
	"an ending behind a snapshot":   {all(life(1), steps(attaches(1, isEnded(1, "exited")), event(1, isEnded(1, "exited")))), "behind its end"},
	"an ending again at a repeat":   {all(life(1), steps(runs(0, Quick, 1), event(0, isEnded(1, "exited")))), "behind its end"},
	"a lost ending":                 {steps(runs(0, Quick, 1), runs(1, Quick, 1), event(0, isStarted(1)), event(0, isEnded(1, "exited"))), "never told the end"},
	"an ending lost in between":     {steps(runs(0, Quick, 1), attaches(1, isStarted(1)), event(0, isStarted(1)), event(0, isEnded(1, "exited"))), "never told the end"},
	"a silent repeat":               {all(life(1), steps(runs(1, Quick, 1))), "never told the end"},
	"an ending lost by a closing":   {steps(runs(0, Hang, 1), event(0, isStarted(1)), shuts), "never told the end"},
	"an event ahead of the reply":   {steps(runs(0, Quick, 1), event(0, isStarted(1)), swaps(0), event(0, isEnded(1, "exited"))), "ahead of each reply"},
	"an event for a stranger":       {all(life(1), steps(event(1, isEnded(1, "exited")))), "ahead of each reply"},
	"two starts":                    {steps(runs(0, Quick, 1), event(0, isStarted(1)), event(0, isStarted(1)), event(0, isEnded(1, "exited"))), "told twice"},
	"a start behind the end":        {steps(runs(0, Quick, 1), event(0, isStarted(1)), event(0, isEnded(1, "exited")), swaps(0)), "behind its end"},
	"a start that one missed":       {steps(runs(0, Quick, 1), attaches(1, isQueued(1)), event(0, isStarted(1)), event(0, isEnded(1, "exited")), event(1, isEnded(1, "exited"))), "not started"},
	"a start that the asker missed": {steps(runs(0, Quick, 1), event(0, isEnded(1, "exited"))), "no order"},
	"queued as an event":            {steps(runs(0, Hang, 1), event(0, isQueued(1)), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled"))), "no event"},
	"a snapshot that knows less":    {steps(runs(0, Hang, 1), event(0, isStarted(1)), attaches(0, isQueued(1)), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled"))), "knew more"},
	"two endings":                   {all(killed(1), steps(attaches(1, isEnded(1, "exited")))), "ended as"},
	"one ending at two times":       {all(killed(1), steps(attaches(1, func() Told { t := isEnded(1, "cancelled"); t.At = "later"; return t }()))), "ended as"},

	"a second reply":           {all(life(1), steps(tampers(func(h *History) { h.Conns[0].Arrivals = append(h.Conns[0].Arrivals, h.Conns[0].Arrivals[0]) }))), "second reply"},
	"a reply that nobody sent": {all(life(1), steps(tampers(func(h *History) { h.Conns[0].Arrivals = h.Conns[0].Arrivals[1:] }))), ""},
	"a reply out of order":     {all(life(1), steps(asks(1, Ack, 9, unknownID), asks(1, Ack, 8, unknownID), swaps(1))), "later request"},
	"a reply behind a page":    {all(life(1), steps(asks(1, Ack, 9, unknownID), reads(1, 1, "text"), swaps(1))), "later request"},
	"pages out of order":       {all(life(1), steps(reads(1, 1, "text"), reads(1, 1, "text"), swaps(1))), "later page"},
	"a message of another":     {all(life(1), steps(tampers(func(h *History) { h.Conns[0].Arrivals[1] = Arrival{Op: -1, Stray: "an error of request 5"} }))), "on connection"},

	"another boot id":         {all(life(1), steps(tampers(func(h *History) { h.Conns[1].Hello = 9 }))), "another boot id"},
	"one boot id for two":     {steps(boots(1), tampers(func(h *History) { h.Boots[1], h.Conns[1].Hello = 7, 7 })), "one boot id"},
	"a connection dropped":    {all(life(1), steps(tampers(func(h *History) { h.Conns[1].Ending = Lost }))), "ended connection"},
	"an old boot served":      {all(life(1), steps(attaches(0, isEnded(1, "exited")), tampers(func(h *History) { h.Operations[1].Boot = -1 }))), "names boot"},
	"an old boot by the id":   {steps(asks(0, Attach, 1, unknownID), tampers(func(h *History) { h.Operations[0].Boot = -1 })), "names boot"},
	"a boot taken for an old": {all(life(1), steps(asks(0, Attach, 1, bootMismatch))), "names boot"},
	"an id out of nowhere":    {steps(asks(0, Cancel, 5, "")), "nobody was given"},
	"a run that nobody asked": {all(life(1), steps(asks(0, Ack, 1, "")), life(3)), "nobody can have asked"},
	"a cut request that ran": {steps(cutOff(1, Operation{Kind: Run, Bare: true, Program: Hang, Cut: CutBefore}), bare(0, Refused, 2),
		event(0, nobody(isFailed(2)))), "nobody can have asked"},
	"one id for two requests": {steps(bare(0, Refused, 1), bare(0, Refused, 1), event(0, nobody(isFailed(1)))), "two requests without"},
	"one id for two tokens":   {all(life(1), steps(bare(1, Quick, 1), event(1, nobody(isEnded(1, "exited"))))), "is of"},
	"the token of another":    {steps(runs(0, Refused, 1), event(0, nobody(isFailed(1)))), "is of"},
	"a second id of a token":  {steps(runs(0, Hang, 1), runs(0, Hang, 2), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled")), asks(0, Cancel, 2, ""), event(0, isEnded(2, "cancelled"))), "was not released"},
	"a token free at the end": {all(life(1), life(2)), "was not released"},
	"a repeat refused":        {steps(runs(0, Hang, 1), event(0, isStarted(1)), shuts, func(b *builder) { b.add(Operation{Conn: 1, Kind: Run, Token: "a", Answer: &Answer{Code: internal}}) }, event(0, isEnded(1, "shutdown"))), "no order"},
	"a new run in a shutdown": {steps(shuts, func(b *builder) { b.add(Operation{Conn: 1, Kind: Run, Token: "b", Answer: &Answer{Code: internal}}) }, runs(0, Hang, 1), event(0, isEnded(1, "shutdown"))), "no order"},
	"a refusal for nothing":   {steps(func(b *builder) { b.add(Operation{Kind: Run, Token: "a", Answer: &Answer{Code: internal}}) }), "by a shutdown only"},

	"an ack that two got":            {all(life(1), steps(asks(0, Ack, 1, ""), asks(1, Ack, 1, ""))), "no order"},
	"a read after release":           {all(life(1), steps(asks(0, Ack, 1, ""), reads(1, 1, "text"))), "no order"},
	"a read after a lost ack":        {all(life(1), steps(lost(1, Operation{Kind: Ack, Run: 1}), reads(0, 1, "text"))), "no order"},
	"a read after two acks":          {all(life(1), steps(cutOff(2, Operation{Kind: Ack, Run: 1}), lost(1, Operation{Kind: Ack, Run: 1}), reads(0, 1, "text"))), "no order"},
	"a lost ack that came too early": {steps(runs(0, Hang, 1), lost(1, Operation{Kind: Ack, Run: 1}), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled")), asks(0, Read, 1, unknownID)), "no order"},
	"an attach after release":        {all(life(1), steps(asks(0, Ack, 1, ""), attaches(1, isEnded(1, "exited")))), "no order"},
	"a cancel after release":         {all(life(1), steps(asks(0, Ack, 1, ""), asks(1, Cancel, 1, ""))), "no order"},
	"a released id again":            {all(life(1), steps(asks(0, Ack, 1, ""), runs(0, Quick, 1))), "no order"},
	"a second id behind a vain ack":  {steps(runs(0, Hang, 1), cutOff(1, Operation{Kind: Ack, Run: 1}), runs(0, Hang, 2), attaches(0, isQueued(1)), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled")), asks(0, Cancel, 2, ""), event(0, isEnded(2, "cancelled"))), "no order"},
	"an ack before the end":          {steps(runs(0, Hang, 1), asks(0, Ack, 1, ""), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled"))), "no order"},
	"an ack refused at the end":      {all(life(1), steps(asks(0, Ack, 1, notFinished))), "no order"},
	"an ended run unknown":           {all(life(1), steps(asks(0, Cancel, 1, unknownID))), "no order"},
	"a read of a failed run":         {steps(runs(0, Refused, 1), event(0, isFailed(1)), reads(0, 1, "")), "no order"},
	"a read before the end":          {steps(runs(0, Hang, 1), event(0, isStarted(1)), reads(0, 1, "text"), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled"))), "no order"},
	"a read that destroys":           {all(life(1), steps(reads(0, 1, "text"), asks(0, Read, 1, unknownID))), "no order"},
	"bytes of another":               {all(life(1), steps(reads(0, 1, "tent"))), "no order"},
	"the body of the repeat":         {all(steps(runs(1, Hang, 1)), life(1), steps(event(1, isStarted(1)), event(1, isEnded(1, "exited")))), "no order"},
	"an end by itself of one killed": {steps(runs(0, Hang, 1), event(0, isStarted(1)), event(0, isEnded(1, "cancelled"))), "no order"},
	"an end before the cancel":       {steps(runs(0, Hang, 1), event(0, isEnded(1, "cancelled")), asks(0, Cancel, 1, "")), "no order"},
	"another exit code":              {steps(runs(0, Quick, 1), event(0, isStarted(1)), event(0, func() Told { t := isEnded(1, "exited"); t.Code = nil; return t }())), "no order"},
	"a failure after a start":        {steps(runs(0, Quick, 1), event(0, isStarted(1)), event(0, isFailed(1))), "no order"},
	"a refused run started":          {steps(runs(0, Refused, 1), event(0, isStarted(1)), event(0, isFailed(1))), "no order"},
	"queued after a start elsewhere": {steps(runs(0, Hang, 1), event(0, isStarted(1)), attaches(1, isQueued(1)), event(1, isStarted(1)), asks(0, Cancel, 1, ""), event(0, isEnded(1, "cancelled")), event(1, isEnded(1, "cancelled"))), "no order"},
	"a run after a shutdown": {steps(shuts, func(b *builder) { b.h.Operations[0].Return = b.time + 5 }, runs(0, Refused, 1),
		event(0, isFailed(1))), "no order"},
	"a stop by nobody": {steps(runs(0, Hang, 1), event(0, isStarted(1)), event(0, isEnded(1, "shutdown"))), "no order"},
}

func TestJudgeLetsSoundHistoriesPass(t *testing.T) {
	t.Attr("requirement", "CONF-1")
	for name, s := range sound {
		t.Run(name, func(t *testing.T) {
			if got, text := Judge(built(3, s...)); got != histories.Linearizable || text != "" {
				t.Errorf("the judge says %q: %s", got, text)
			}
		})
	}
}

func TestJudgeFindsPlantedFaults(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	for name, c := range unsound {
		t.Run(name, func(t *testing.T) {
			if got, text := Judge(built(3, c.steps...)); got != histories.NotLinearizable || !strings.Contains(text, c.says) {
				t.Errorf("the judge says %q: %q, want words %q", got, text, c.says)
			}
		})
	}
}

// TestFailingHistoriesAreSaved saves failing histories, reads them back, judges
// them again and looks for their drawings.
func TestFailingHistoriesAreSaved(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	for _, name := range []string{"an ack that two got", "a doubled ending"} {
		dir := t.TempDir()
		h := built(3, unsound[name].steps...)
		path, err := h.save(dir)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h, again); diff != "" {
			t.Errorf("%s: the history changed on its way (-saved +read):\n%s", name, diff)
		}
		if v, _ := Judge(again); v != histories.NotLinearizable {
			t.Errorf("%s: the saved history is judged %q", name, v)
		}
		drawing, err := os.ReadFile(filepath.Join(dir, "planted.0.html"))
		if err != nil || !strings.Contains(string(drawing), "<html") {
			t.Errorf("%s: the drawing is missing: %v", name, err)
		}
	}
}

// TestFailuresReachTheResult runs verdicts through the result that verification
// reads.
func TestFailuresReachTheResult(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	c := Config{FailDir: t.TempDir()}
	r := &histories.Result{Requirements: map[string]int64{}}
	keep := func(s []func(*builder)) {
		h := built(3, s...)
		v, text := Judge(h)
		if err := c.keep(r, h, v, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range sound {
		keep(s)
	}
	for _, f := range unsound {
		keep(f.steps)
	}
	if len(r.Failures) != len(unsound) || r.Histories != int64(len(sound)+len(unsound)) || r.Open == 0 {
		t.Errorf("%d failures of %d histories, %d open; want %d of %d", len(r.Failures), r.Histories, r.Open, len(unsound), len(sound)+len(unsound))
	}
	for _, id := range []string{"MGR-3", "MGR-5", "MGR-6", "MGR-8", "MGR-12", "MGR-18", "MGR-24"} {
		if r.Requirements[id] == 0 {
			t.Errorf("the sound histories show nothing of %s: %v", id, r.Requirements)
		}
	}
}
