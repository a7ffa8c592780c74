package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	output0 = "event: output\ndata: {\"offset\":0,\"stream\":\"stdout\",\"output\":\"YWJj\"}\n\n" // abc
	output3 = "event: output\ndata: {\"offset\":3,\"stream\":\"stderr\",\"output\":\"ZA==\"}\n\n" // d
	gap3    = "event: gap\ndata: {\"from\":3,\"to\":10}\n\n"
	exit4   = "event: exit\ndata: {\"exit_code\":7,\"signal\":null,\"offset\":4}\n\n"
	exit10  = "event: exit\ndata: {\"exit_code\":0,\"signal\":null,\"offset\":10}\n\n"
)

func TestReadEvents(t *testing.T) {
	heard := 0
	got, err := readEvents(strings.NewReader(output0+":\n\n"+output3+exit4), func(n int) { heard += n })
	if err != nil || got.delivered != 4 || got.lost != 0 || got.events != 3 || got.exitCode == nil || *got.exitCode != 7 || heard != 4 {
		t.Errorf("%+v, %v, heard %d", got, err, heard)
	}
	got, err = readEvents(strings.NewReader(output0+gap3+exit10), nil)
	if err != nil || got.delivered != 3 || got.lost != 7 || got.share() != 0.3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestReadEventsRefuses shows that a stream which does not tile, or lacks its
// end, is no measurement.
func TestReadEventsRefuses(t *testing.T) {
	for name, stream := range map[string]string{
		"no exit":            output0,
		"bytes twice":        output0 + output0 + exit4,
		"bytes skipped":      output3 + exit4,
		"exit too early":     output0 + exit4,
		"gap elsewhere":      gap3 + exit10,
		"unknown event":      "event: news\ndata: {}\n\n",
		"output without any": "event: output\ndata: {}\n\n",
		"bad base64":         strings.Replace(output0, "YWJj", "!!!!", 1) + exit4,
		"an event too large": "event: output\ndata: {\"offset\":0,\"stream\":\"stdout\",\"output\":\"" + strings.Repeat("A", 100<<10) + "\"}\n\n",
	} {
		if got, err := readEvents(strings.NewReader(stream), nil); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
	if _, err := readEvents(strings.NewReader(output0), nil); !errors.Is(err, errNoExit) {
		t.Errorf("a cut stream: %v, want errNoExit", err)
	}
}

func TestBareEventsAreTheDaemons(t *testing.T) {
	w := httptest.NewRecorder()
	bareEvents(w, 3*eventBytes)
	got, err := readEvents(w.Body, nil)
	if err != nil || got.delivered != 3*eventBytes || got.events != 4 || got.lost != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHeldText(t *testing.T) {
	for n := 1; n < 300; n++ {
		s := heldText(n)
		if len(s) != n || !utf8.ValidString(s) {
			t.Fatalf("heldText(%d) has %d bytes, valid %t", n, len(s), utf8.ValidString(s))
		}
	}
	var poll struct{ Stdout, Phase string }
	if err := json.Unmarshal(pollBody(heldText(1000)), &poll); err != nil || poll.Stdout != heldText(1000) || poll.Phase != "exited" {
		t.Errorf("the poll body is %+v, %v", poll, err)
	}
}

// TestPacedWaitsForCredits: the producer stays within its window, and a reader
// that leaves ends it.
func TestPacedWaitsForCredits(t *testing.T) {
	var out bytes.Buffer
	if err := paced(&out, 2<<20, strings.NewReader(strings.Repeat("c", (2<<20-window)/creditBytes))); err != nil || out.Len() != 2<<20 {
		t.Errorf("%d bytes with all credits, %v", out.Len(), err)
	}
	out.Reset()
	if err := paced(&out, 2<<20, strings.NewReader("")); err == nil || out.Len() != window {
		t.Errorf("%d bytes without credits, %v; want %d and an error", out.Len(), err, window)
	}
	out.Reset()
	if err := paced(&out, 100_001, nil); err != nil || out.Len() != 100_001 {
		t.Errorf("%d bytes unpaced, %v", out.Len(), err)
	}
}
