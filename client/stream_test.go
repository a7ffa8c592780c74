package client_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"microvms/client"
	"microvms/client/microvmtest"
)

// out is an output frame, gap a gap frame, exit an exit frame.
func out(offset int, text string) string {
	return fmt.Sprintf("event: output\ndata: {\"offset\":%d,\"stream\":\"stdout\",\"output\":%q}\n\n", offset, base64.StdEncoding.EncodeToString([]byte(text)))
}

func gap(from, to int) string {
	return fmt.Sprintf("event: gap\ndata: {\"from\":%d,\"to\":%d}\n\n", from, to)
}

func exit(offset int) string {
	return fmt.Sprintf("event: exit\ndata: {\"exit_code\":0,\"signal\":null,\"timed_out\":false,\"truncated\":false,\"writers_may_be_alive\":false,\"offset\":%d}\n\n", offset)
}

// script serves the n-th attach with the n-th body, then breaks off. A body
// that is a number is that status; "silent" never ends.
type script struct {
	bodies  []string
	offsets []string // asked for, one an attach
	at      []time.Duration
	began   time.Time
}

func (s *script) serve(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	n := len(s.offsets)
	s.offsets = append(s.offsets, r.URL.Query().Get("offset"))
	s.at = append(s.at, time.Since(s.began))
	body := ""
	if n < len(s.bodies) {
		body = s.bodies[n]
	}
	var status int
	if _, err := fmt.Sscanf(body, "%d", &status); err == nil {
		w.WriteHeader(status)
		return
	}
	w.WriteHeader(http.StatusOK)
	fmt.Fprint(w, strings.TrimSuffix(body, "silent"))
	if strings.HasSuffix(body, "silent") {
		<-r.Context().Done()
	}
}

// play streams the script's exec and returns the events in words, the
// stream and the last error.
func play(t *testing.T, s *script, opts client.StreamOptions) (events []string, st *client.Stream, last error) {
	synctest.Test(t, func(t *testing.T) {
		s.began = time.Now()
		srv := microvmtest.New()
		srv.Intercept = s.serve
		session := srv.Session(t)
		st = session.Stream(t.Context(), "x", opts)
		for ev, err := range st.All() {
			switch ev := ev.(type) {
			case *client.Output:
				events = append(events, fmt.Sprintf("%d:%s", ev.Offset, ev.Data))
			case *client.Gap:
				events = append(events, fmt.Sprintf("gap %d-%d", ev.From, ev.To))
			case *client.Exit:
				events = append(events, fmt.Sprintf("exit %d", ev.Offset))
			default:
				last = err
			}
		}
		session.Close()
	})
	return events, st, last
}

// Each byte comes once and in order, loss is always an event, and only the exit
// event completes a stream, whatever is cut, repeated or left out.
func TestStreamDelivery(t *testing.T) {
	t.Attr("requirement", "CLIENT-1")
	t.Attr("requirement", "CLIENT-2")
	t.Attr("requirement", "CLIENT-3")
	cases := []struct {
		name    string
		opts    client.StreamOptions
		bodies  []string
		want    []string
		offsets []string
		reason  client.EndReason
	}{
		{"whole", client.StreamOptions{}, []string{out(0, "ab") + ":\n\n" + out(2, "c") + exit(3)},
			[]string{"0:ab", "2:c", "exit 3"}, []string{"0"}, client.EndExited},
		{"cut and resumed at the cursor", client.StreamOptions{}, []string{out(0, "ab"), out(2, "c") + exit(3)},
			[]string{"0:ab", "2:c", "exit 3"}, []string{"0", "2"}, client.EndExited},
		{"cut inside a frame", client.StreamOptions{}, []string{out(0, "ab") + "event: output\ndata: {", out(2, "c") + exit(3)},
			[]string{"0:ab", "2:c", "exit 3"}, []string{"0", "2"}, client.EndExited},
		{"repeated bytes are trimmed", client.StreamOptions{}, []string{out(0, "abc") + out(1, "bcd") + out(0, "ab") + exit(4)},
			[]string{"0:abc", "3:d", "exit 4"}, []string{"0"}, client.EndExited},
		{"a gap moves the cursor", client.StreamOptions{Offset: 1}, []string{gap(1, 5), out(5, "x") + exit(6)},
			[]string{"gap 1-5", "5:x", "exit 6"}, []string{"1", "5"}, client.EndExited},
		{"a gap behind the cursor is none", client.StreamOptions{Offset: 4}, []string{gap(0, 4) + gap(3, 5) + out(5, "x") + exit(6)},
			[]string{"gap 4-5", "5:x", "exit 6"}, []string{"4"}, client.EndExited},
		{"unannounced loss is a gap", client.StreamOptions{}, []string{out(0, "a") + out(3, "d") + gap(6, 7) + exit(9)},
			[]string{"0:a", "gap 1-3", "3:d", "gap 4-7", "gap 7-9", "exit 9"}, []string{"0"}, client.EndExited},
		{"attached after the end", client.StreamOptions{Offset: 9}, []string{exit(3)}, []string{"exit 3"}, []string{"9"}, client.EndExited},
		{"unknown and broken frames are dropped", client.StreamOptions{},
			[]string{"event: news\ndata: {}\n\nevent: output\ndata: {\n\nevent: exit\ndata: 7\n\nevent: gap\ndata: {\"from\":3,\"to\":3}\n\n" + out(0, "a") + exit(1)},
			[]string{"0:a", "exit 1"}, []string{"0"}, client.EndExited},
		{"a retryable refusal is tried again", client.StreamOptions{}, []string{"503", "500", out(0, "a") + exit(1)},
			[]string{"0:a", "exit 1"}, []string{"0", "0", "0"}, client.EndExited},
		{"without reconnect a cut just ends it", client.StreamOptions{NoReconnect: true}, []string{out(0, "a")},
			[]string{"0:a"}, []string{"0"}, client.EndCut},
	}
	for _, c := range cases {
		s := &script{bodies: c.bodies}
		got, st, err := play(t, s, c.opts)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v\n%s", c.name, err, diff)
		}
		if diff := cmp.Diff(c.offsets, s.offsets); diff != "" {
			t.Errorf("%s: offsets asked for\n%s", c.name, diff)
		}
		if st.Reason() != c.reason {
			t.Errorf("%s: ended as %s, want %s", c.name, st.Reason(), c.reason)
		}
	}
}

// What ends a stream for good is its error, at once.
func TestStreamFatal(t *testing.T) {
	t.Attr("requirement", "BIND-22")
	t.Attr("requirement", "CLIENT-7")
	bad := "event: output\ndata: {\"offset\":0,\"stream\":\"stdout\",\"output\":\"?\"}\n\n"
	for name, c := range map[string]struct {
		opts   client.StreamOptions
		bodies []string
		is     func(error) bool
	}{
		"not found":        {bodies: []string{"404"}, is: func(err error) bool { return errors.Is(err, client.ErrNotFound) }},
		"unauthorized":     {bodies: []string{out(0, "a"), "401"}, is: func(err error) bool { return errors.Is(err, client.ErrUnauthorized) }},
		"redirect":         {bodies: []string{"307"}, is: func(err error) bool { return client.KindOf(err) == client.KindProtocol }},
		"bad base64":       {bodies: []string{bad}, is: func(err error) bool { return client.WireKindOf(err) == client.WireProtocolError }},
		"unknown stream":   {bodies: []string{strings.ReplaceAll(out(0, "a"), "stdout", "stdx")}, is: func(err error) bool { return client.KindOf(err) == client.KindProtocol }},
		"past the last":    {bodies: []string{strings.ReplaceAll(out(0, "ab"), ":0,", ":18446744073709551615,")}, is: func(err error) bool { return client.KindOf(err) == client.KindProtocol }},
		"unterminated":     {bodies: []string{strings.Repeat("x", 4<<20+1)}, is: func(err error) bool { return client.KindOf(err) == client.KindProtocol }},
		"gap as error":     {opts: client.StreamOptions{ErrorOnGap: true}, bodies: []string{out(0, "a") + gap(1, 4)}, is: isGap(1, 4)},
		"unannounced gap":  {opts: client.StreamOptions{ErrorOnGap: true}, bodies: []string{exit(2)}, is: isGap(0, 2)},
		"no reconnect 500": {opts: client.StreamOptions{NoReconnect: true}, bodies: []string{"500"}, is: client.Retryable},
	} {
		s := &script{bodies: c.bodies}
		_, st, err := play(t, s, c.opts)
		if err == nil || !c.is(err) || st.Reason() != client.EndCut || len(s.offsets) != len(c.bodies) {
			t.Errorf("%s: error %v, reason %s, %d attaches", name, err, st.Reason(), len(s.offsets))
		}
	}
}

func isGap(from, to uint64) func(error) bool {
	return func(err error) bool {
		var g *client.GapError
		return errors.Is(err, client.ErrGap) && errors.As(err, &g) && *g == client.GapError{From: from, To: to} &&
			client.WireKindOf(err) == client.WireOutputGap && !client.Retryable(err)
	}
}

// Reconnects come after 250 ms, 500 ms, 1 s, 2 s, then 4 s, twenty times; the
// next drop is a retryable error that names drops and offset.
func TestStreamReconnectDelays(t *testing.T) {
	t.Attr("requirement", "CLIENT-4")
	t.Attr("requirement", "CLIENT-5")
	s := &script{bodies: []string{out(0, "abc")}}
	_, st, err := play(t, s, client.StreamOptions{})
	if len(s.at) != 21 || !client.Retryable(err) || st.Cursor() != 3 {
		t.Fatalf("%d attaches, cursor %d, error %v", len(s.at), st.Cursor(), err)
	}
	if want := `stream of "x" dropped 21 times; last offset 3`; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error reads %q, want %q", err, want)
	}
	want := []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}
	for i := 1; i < len(s.at); i++ {
		delay := 4 * time.Second
		if i <= len(want) {
			delay = want[i-1]
		}
		if got := s.at[i] - s.at[i-1]; got != delay {
			t.Errorf("reconnect %d after %s, want %s", i, got, delay)
		}
	}
}

// Silence of 60 s counts as a cut; any byte, a comment too, starts it anew, and
// time that the receiver takes does not count.
func TestStreamIdleTimeout(t *testing.T) {
	t.Attr("requirement", "CLIENT-6")
	s := &script{bodies: []string{out(0, "a") + "silent", exit(1)}}
	if _, st, err := play(t, s, client.StreamOptions{}); err != nil || st.Reason() != client.EndExited {
		t.Errorf("error %v, reason %s", err, st.Reason())
	}
	if got := s.at[1]; got != 60*time.Second+250*time.Millisecond {
		t.Errorf("reconnected after %s", got)
	}
	synctest.Test(t, func(t *testing.T) {
		srv := microvmtest.New()
		srv.Programs["slow"] = func(p *microvmtest.Process) microvmtest.Exit {
			fmt.Fprint(p.Stdout, "a")
			select {
			case <-p.Context.Done():
			case <-time.After(10 * time.Minute): // kept alive by comments meanwhile
			}
			return microvmtest.Exit{}
		}
		attaches := 0
		srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/stream") {
				attaches++
			}
			next.ServeHTTP(w, r)
		}
		session := srv.Session(t)
		id := start(t, session, "slow")
		for ev, err := range session.Stream(t.Context(), id, client.StreamOptions{}).All() {
			if err != nil {
				t.Error(err)
			}
			if _, ok := ev.(*client.Output); ok {
				<-time.After(5 * time.Minute)
			}
		}
		if attaches != 1 {
			t.Errorf("attached %d times, want once", attaches)
		}
		session.Close()
	})
}

// A receiver that stops ends the stream, and a stream is read only once.
func TestStreamStop(t *testing.T) {
	t.Attr("requirement", "CLIENT-29")
	srv := microvmtest.New()
	srv.Intercept = (&script{bodies: []string{out(0, "ab") + "silent"}}).serve
	st := srv.Session(t).Stream(t.Context(), "x", client.StreamOptions{})
	for _, err := range st.All() {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if st.Reason() != client.EndStopped || st.Cursor() != 2 {
		t.Errorf("reason %s, cursor %d", st.Reason(), st.Cursor())
	}
	if err := lastError(st); client.KindOf(err) != client.KindInvalidArg {
		t.Errorf("second reading: %v", err)
	}
}
