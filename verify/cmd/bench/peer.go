package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// peerServerCmd serves the peers that need no other program: bare net/http
// handlers, in a process of their own as the daemon is.
type peerServerCmd struct{}

// The routes of the peer server.
const (
	peerHealth = "/health"   // a constant answer of the size of the daemon's
	peerHeld   = "/held"     // ?bytes=N: the poll body, encoded beforehand
	peerEncode = "/encode"   // ?bytes=N: the same by encoding/json for each request
	peerEvents = "/events"   // ?bytes=N: output events of 16 KiB from memory
	peerEcho   = "/echo"     // a WebSocket that sends back what comes
	listening  = "listening" // the line with the address begins so
)

func servePeer(ctx context.Context, stdout io.Writer) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+peerHealth, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, healthBody)
	})
	held := map[int][]byte{}
	mux.HandleFunc("GET "+peerHeld, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("bytes"))
		if held[n] == nil { // one client, which asks in turn
			held[n] = pollBody(heldText(n))
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(held[n])
	})
	texts := map[int]string{}
	mux.HandleFunc("GET "+peerEncode, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("bytes"))
		if texts[n] == "" {
			texts[n] = heldText(n)
		}
		w.Header().Set("Content-Type", "application/json")
		encodePoll(w, texts[n])
	})
	mux.HandleFunc("GET "+peerEvents, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.ParseInt(r.FormValue("bytes"), 10, 64)
		bareEvents(w, n)
	})
	serveFiles(mux)
	serveSocket(mux)
	mux.HandleFunc("GET "+peerEcho, echo)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s %s\n", listening, l.Addr())
	server := &http.Server{Handler: mux}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// echo sends each message back, until the client leaves.
func echo(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	for {
		kind, b, err := ws.Read(r.Context())
		if err != nil || ws.Write(r.Context(), kind, b) != nil {
			return
		}
	}
}

// healthBody has the fields of the daemon's answer.
const healthBody = `{"version":"0.0.0-dev","bootstrapped":true,"disk":{"available_bytes":20000000000,"reserve_bytes":268435456,"under_pressure":false},` +
	`"identity_degraded":false,"identity_repaired":false,"busy":false,"execs":0,"hooks":[{"hook":"run","fired_at":1700000000}],"hooks_dropped":0,` +
	`"identity_steps":[],"image_env_keys":3}`

// eventBytes is the output that one event carries: what the daemon reads at once.
const eventBytes = 16 << 10

// bareEvents streams n bytes as output events of the daemon's format.
func bareEvents(w http.ResponseWriter, n int64) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := bufio.NewWriterSize(w, 64<<10)
	flusher := http.NewResponseController(w)
	src := make([]byte, eventBytes)
	b64 := make([]byte, base64.StdEncoding.EncodedLen(eventBytes))
	for off := int64(0); off < n; off += eventBytes {
		base64.StdEncoding.Encode(b64, src)
		fmt.Fprintf(out, "event: output\ndata: {\"offset\":%d,\"stream\":\"stdout\",\"output\":\"", off)
		out.Write(b64)
		out.WriteString("\"}\n\n")
		if out.Flush() != nil || flusher.Flush() != nil {
			return // the client left
		}
	}
	fmt.Fprintf(w, "event: exit\ndata: {\"exit_code\":0,\"signal\":null,\"timed_out\":false,\"truncated\":false,\"writers_may_be_alive\":false,\"offset\":%d}\n\n", n)
}

// heldText is n bytes of a log, with what makes JSON strings slow now and then:
// quotes, line ends and letters beyond ASCII. n cuts no letter in two.
func heldText(n int) string {
	const line = "2026-01-02T03:04:05.678Z level=info msg=\"request served\" method=GET path=/v1/exec/3f2a status=200 bytes=18231 place=Zürich\n"
	s := strings.Repeat(line, n/len(line)+1)
	if s[n]&0xC0 == 0x80 { // the cut would be inside of the one letter
		return s[:n-1] + "u"
	}
	return s[:n]
}

// pollBody is the answer of a poll in phase exited.
func pollBody(stdout string) []byte {
	var b strings.Builder
	encodePoll(&b, stdout)
	return []byte(b.String())
}

func encodePoll(w io.Writer, stdout string) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(struct {
		ExecID            string `json:"exec_id"`
		Phase             string `json:"phase"`
		ExitCode          int    `json:"exit_code"`
		Signal            *int   `json:"signal"`
		TimedOut          bool   `json:"timed_out"`
		Stdout            string `json:"stdout"`
		Stderr            string `json:"stderr"`
		Truncated         bool   `json:"truncated"`
		WritersMayBeAlive bool   `json:"writers_may_be_alive"`
	}{ExecID: "held-0", Phase: "exited", Stdout: stdout})
}

// spawnWithPipes is the least that running a command can cost from Go: os/exec
// with pipes and readers of its own, as the limit program has it. It returns
// the exit code.
func spawnWithPipes(path string, args ...string) (int, error) {
	var reads, writes [2]*os.File
	for i := range reads {
		r, w, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		reads[i], writes[i] = r, w
	}
	c := exec.Command(path, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stdout, c.Stderr = writes[0], writes[1]
	err := c.Start()
	done := make(chan struct{}, 2)
	for i := range reads {
		_ = writes[i].Close()
		go func() {
			_, _ = io.Copy(io.Discard, reads[i])
			_ = reads[i].Close()
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	if err != nil {
		return 0, err
	}
	if err := c.Wait(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode(), nil
		}
		return 0, err
	}
	return 0, nil
}

// timed appends how long f took, in seconds.
func timed(spans []float64, f func() error) ([]float64, error) {
	t := time.Now()
	err := f()
	return append(spans, time.Since(t).Seconds()), err
}
