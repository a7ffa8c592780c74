package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"microvms/agentd/api"
	"microvms/client"
	"microvms/client/microvmtest"
)

// session opens a session with a fake daemon. Real code calls client.New with
// the endpoint and token of its VM.
func session() *client.Session {
	s, err := client.New("http://vm.example:9000", microvmtest.Token, client.WithHTTPClient(microvmtest.New().Client()))
	if err != nil {
		log.Fatal(err)
	}
	return s
}

func ExampleNew() {
	s, err := client.New("vm.example", os.Getenv("MICROVM_AGENT_TOKEN"), client.WithHTTPClient(http.DefaultClient))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println(s.Endpoint())
	// Output: https://vm.example
}

func ExampleSession_Command() {
	s := session()
	defer s.Close()
	out, err := s.Command(context.Background(), "echo", "hello").Output()
	fmt.Printf("%q %v\n", out, err)

	err = s.Command(context.Background(), "false").Run()
	var exit *client.ExitError
	if errors.As(err, &exit) {
		fmt.Println(exit.ExitCode(), err)
	}
	// Output:
	// "hello\n" <nil>
	// 1 exit status 1
}

func ExampleCmd_StdinPipe() {
	s := session()
	defer s.Close()
	cmd := s.Command(context.Background(), "cat")
	cmd.Stdout = os.Stdout
	w, err := cmd.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(w, "one line")
	w.Close()
	fmt.Println(cmd.Wait())
	// Output:
	// one line
	// <nil>
}

func ExampleSession_Start() {
	s := session()
	defer s.Close()
	ctx := context.Background()
	// With an id of one's own a start can be repeated, also after a restart of
	// this program: the command runs once.
	req := api.StartRequest{ExecID: "nightly-42", Command: []string{"echo", "done"}}
	for range 2 {
		if _, err := s.Start(ctx, req); err != nil {
			log.Fatal(err)
		}
	}
	res, err := s.WaitAndAck(ctx, "nightly-42", 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %q\n", res.Phase, res.Stdout)
	// Output: acked "done\n"
}

func ExampleSession_Stream() {
	s := session()
	defer s.Close()
	ctx := context.Background()
	id, err := s.Start(ctx, api.StartRequest{Command: []string{"echo", "hello"}})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range s.Stream(ctx, id, client.StreamOptions{}).All() {
		switch ev := ev.(type) {
		case *client.Output:
			fmt.Printf("%s at %d: %q\n", ev.Stream, ev.Offset, ev.Data)
		case *client.Gap:
			fmt.Printf("lost [%d, %d)\n", ev.From, ev.To)
		case *client.Exit:
			fmt.Println("exit code", *ev.ExitCode)
		default:
			log.Fatal(err)
		}
	}
	// Output:
	// stdout at 0: "hello\n"
	// exit code 0
}

func ExampleSession_RunToCompletion() {
	s := session()
	defer s.Close()
	req := api.StartRequest{Command: []string{"exit 3"}, Shell: api.Shell{On: true}}
	res, err := s.RunToCompletion(context.Background(), req, client.RunOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.POSIXCode(), res.Notes())
	// Output: 3 []
}

func ExampleSession_Stdin() {
	s := session()
	defer s.Close()
	ctx := context.Background()
	id, err := s.Start(ctx, api.StartRequest{Command: []string{"cat"}, Stdin: true})
	if err != nil {
		log.Fatal(err)
	}
	n, err := s.Stdin(ctx, id, strings.NewReader("input"))
	if err != nil {
		log.Fatal(err)
	}
	res, err := s.WaitAndAck(ctx, id, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, res.Stdout)
	// Output: 5 input
}

func ExampleSession_Kill() {
	s := session()
	defer s.Close()
	ctx := context.Background()
	id, err := s.Start(ctx, api.StartRequest{Command: []string{"cat"}, Stdin: true})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		signalled, err := s.Kill(ctx, id)
		fmt.Println(signalled, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleSession_Health() {
	s := session()
	defer s.Close()
	h, err := s.Health(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Bootstrapped, h.Busy, h.Execs)
	// Output: true false 0
}

func ExampleSession_Ack() {
	s := session()
	defer s.Close()
	_, err := s.Ack(context.Background(), "never-started")
	fmt.Println(errors.Is(err, client.ErrNotFound), client.KindOf(err), client.Retryable(err))
	// Output: true ERR_PROTOCOL false
}

func ExampleSession_Procs() {
	s := session()
	defer s.Close()
	ctx := context.Background()
	if err := s.Command(ctx, "true").Run(); err != nil {
		log.Fatal(err)
	}
	groups, err := s.Procs(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range groups {
		fmt.Println(g.ChildExited, g.Pids)
	}
	// Output: true []
}
