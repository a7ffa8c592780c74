package microvmtest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"microvms/client"
	"microvms/client/microvmtest"
)

// A test of code that uses package client: the command is a Go function.
func Example() {
	srv := microvmtest.New()
	defer srv.Close()
	srv.Programs["greet"] = func(p *microvmtest.Process) microvmtest.Exit {
		fmt.Fprintf(p.Stdout, "hello %s from %s\n", strings.Join(p.Args[1:], " "), p.Env["PLACE"])
		return microvmtest.Exit{Code: 3}
	}
	session, err := client.New("http://any.example", microvmtest.Token, client.WithHTTPClient(srv.Client()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	cmd := session.Command(context.Background(), "greet", "you")
	cmd.Env = []string{"PLACE=here"}
	out, err := cmd.Output()
	fmt.Printf("%s%v\n", out, err)
	// Output:
	// hello you from here
	// exit status 3
}

// Intercept makes what a real daemon cannot be made to do: here, it breaks the
// first stream.
func ExampleServer_intercept() {
	srv := microvmtest.New()
	defer srv.Close()
	broken := false
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/stream") && !broken {
			broken = true
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	}
	session, err := client.New("http://any.example", microvmtest.Token, client.WithHTTPClient(srv.Client()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	out, err := session.Command(context.Background(), "echo", "still here").Output()
	fmt.Printf("%s%v %t\n", out, err, broken)
	// Output:
	// still here
	// <nil> true
}

// What a broken answer looks like to the client does not depend on timing.
func TestBrokenAnswers(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"before the header": func(http.ResponseWriter) {},
		"after the header":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) },
		"inside the body":   func(w http.ResponseWriter) { fmt.Fprint(w, `{"version":`) },
	} {
		for range 100 {
			srv := microvmtest.New()
			srv.Intercept = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				answer(w)
				panic(http.ErrAbortHandler)
			}
			if _, err := srv.Session(t).Health(t.Context()); client.WireKindOf(err) != client.WireTransport {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// The fake keeps the limits that it is given: the head for the record, the
// window for streams.
func TestLimits(t *testing.T) {
	srv := microvmtest.New()
	srv.HeadBytes, srv.RingBytes = 3, 5
	srv.Programs["much"] = func(p *microvmtest.Process) microvmtest.Exit {
		fmt.Fprint(p.Stdout, "0123")
		fmt.Fprint(p.Stderr, "ab")
		fmt.Fprint(p.Stdout, "4567")
		return microvmtest.Exit{}
	}
	s := srv.Session(t)
	cmd := s.Command(t.Context(), "much")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for ev, err := range s.Stream(t.Context(), cmd.ID, client.StreamOptions{Offset: 1}).All() {
		switch ev := ev.(type) {
		case *client.Output:
			got = append(got, fmt.Sprintf("%s %d %s", ev.Stream, ev.Offset, ev.Data))
		case *client.Gap:
			got = append(got, fmt.Sprintf("gap %d %d", ev.From, ev.To))
		case *client.Exit:
			got = append(got, fmt.Sprintf("exit %d truncated %t", ev.Offset, ev.Truncated))
		default:
			t.Fatal(err)
		}
	}
	if want := "gap 1 5,stderr 5 b,stdout 6 4567,exit 10 truncated true"; strings.Join(got, ",") != want {
		t.Errorf("events %q, want %q", got, want)
	}
}
