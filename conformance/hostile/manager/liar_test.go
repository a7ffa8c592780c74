package manager

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// lie is a way in which a manager betrays its contract. The zero value is honest,
// but for what the relay itself cannot do.
type lie struct {
	// handle answers a request itself and then returns true.
	handle func(w http.ResponseWriter, r *http.Request) bool
	// relay says that messages are relayed one by one, not octet by octet.
	relay bool
	limit int64 // of the relay's messages; 0: none
	// up and down return a new function for each connection, which changes messages
	// of the client and of the manager; no message: it is dropped.
	up, down func() func(message []byte) [][]byte
}

// liar is a manager that is honest but for one lie: a proxy before the command.
func liar(t *testing.T, honest Target, l lie) Target {
	t.Helper()
	to := honest.Address
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	proxy.Transport, proxy.ErrorLog = &http.Transport{DisableKeepAlives: true}, quiet
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case l.handle != nil && l.handle(w, r):
		case l.relay && r.URL.Path == msp.Path:
			l.serve(w, r, to)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	server.Config.ErrorLog = quiet
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	honest.Address = server.Listener.Addr().String()
	return honest
}

// serve relays messages both ways until one side ends.
func (l lie) serve(w http.ResponseWriter, r *http.Request, to string) {
	client, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer client.CloseNow()
	server, _, err := websocket.Dial(r.Context(), "ws://"+to+msp.Path, nil)
	if err != nil {
		return
	}
	defer server.CloseNow()
	client.SetReadLimit(-1)
	server.SetReadLimit(-1)
	if l.limit > 0 {
		client.SetReadLimit(l.limit)
	}
	var both sync.WaitGroup
	both.Go(func() { defer server.CloseNow(); carry(client, server, l.up) })
	both.Go(func() { defer client.CloseNow(); carry(server, client, l.down) })
	both.Wait()
}

func carry(from, to *websocket.Conn, change func() func([]byte) [][]byte) {
	all := func(b []byte) [][]byte { return [][]byte{b} }
	if change != nil {
		all = change()
	}
	for {
		kind, b, err := from.Read(context.Background())
		if err != nil {
			return
		}
		messages := [][]byte{b}
		if kind == websocket.MessageBinary {
			messages = all(b)
		}
		for _, m := range messages {
			if to.Write(context.Background(), kind, m) != nil {
				return
			}
		}
	}
}

// each makes a lie about each message by itself.
func each(change func(message []byte) [][]byte) func() func([]byte) [][]byte {
	return func() func([]byte) [][]byte { return change }
}

// onEvent makes a lie about events.
func onEvent(change func(ev *msp.Event)) func() func([]byte) [][]byte {
	return each(func(b []byte) [][]byte {
		h, payload, err := msp.ParseHeader(b)
		ev := new(msp.Event)
		if err != nil || h.Method != msp.MethodEvent || calldata.Unmarshal(payload, ev) != nil {
			return [][]byte{b}
		}
		change(ev)
		return [][]byte{encode(h, ev)}
	})
}

// onError makes a lie about error replies.
func onError(change func(h *msp.Header, e *msp.Error)) func() func([]byte) [][]byte {
	return each(func(b []byte) [][]byte {
		h, payload, err := msp.ParseHeader(b)
		e := new(msp.Error)
		if err != nil || h.Method != msp.MethodError || calldata.Unmarshal(payload, e) != nil {
			return [][]byte{b}
		}
		change(&h, e)
		return [][]byte{encode(h, e)}
	})
}

// onRun makes a lie about run requests.
func onRun(change func(r *msp.RunRequest)) func() func([]byte) [][]byte {
	return each(func(b []byte) [][]byte {
		h, payload, err := msp.ParseHeader(b)
		if err != nil || h.Method != msp.MethodRun {
			return [][]byte{b}
		}
		r, err := msp.ParseRequest(h.Method, payload)
		if err != nil {
			return [][]byte{b}
		}
		change(r.Run)
		return [][]byte{encode(h, r)}
	})
}

func encode(h msp.Header, payload any) []byte {
	b, err := msp.Message(h, payload)
	if err != nil {
		panic("hostile: internal error: " + err.Error())
	}
	return b
}

// deaf upgrades and says hello, and then reads whatever comes without a word.
func deaf(to string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != msp.Path {
			return false
		}
		server, err := net.Dial("tcp", to)
		if err != nil {
			return true
		}
		defer server.Close()
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return true
		}
		defer conn.Close()
		io.WriteString(server, goodUpgrade)
		go func() { _, _ = io.Copy(conn, server) }() // ends with the server's connection
		_, _ = io.Copy(io.Discard, rw)
		return true
	}
}

// later holds events back until n pages have passed.
func later(n int) func() func([]byte) [][]byte {
	return func() func([]byte) [][]byte {
		var held [][]byte
		pages := 0
		return func(b []byte) [][]byte {
			h, payload, err := msp.ParseHeader(b)
			switch {
			case err == nil && h.Method == msp.MethodGetArtifact:
				if pages++; pages == n {
					return append(held, b)
				}
			case err == nil && h.Method == msp.MethodEvent && pages > 0 && pages < n || err == nil && bytes.Contains(payload, []byte("cancelled")):
				held = append(held, bytes.Clone(b))
				return nil
			}
			return [][]byte{b}
		}
	}
}
