package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"

	"microvms/agentd/tunnel"
	"microvms/client"
)

// BenchmarkTunnelUpload measures a tunnel to a program of the guest that reads
// and drops, beside what it stands on, in the same run: a WebSocket alone, and
// one whose messages are sealed and opened. The tunnel has one hop more than
// they have, the daemon's own connection to the guest.
func BenchmarkTunnelUpload(b *testing.B) {
	b.Run("plain", func(b *testing.B) { benchTunnel(b, false) })
	b.Run("websocket", func(b *testing.B) { benchWebSocket(b, nil, nil, 65536) })
	b.Run("verified", func(b *testing.B) { benchTunnel(b, true) })
	b.Run("websocket+noise", func(b *testing.B) {
		host, seed, hostPublic := identities(b)
		i, hello, err := tunnel.Initiate(tunnel.Keys{Private: host.HostSeed, Peer: host.VMPublicKey}, 1, true)
		if err != nil {
			b.Fatal(err)
		}
		open, reply, err := tunnel.Respond(tunnel.Keys{Private: seed, Peer: hostPublic}, 1, hello, true)
		if err != nil {
			b.Fatal(err)
		}
		seal, err := i.Finish(reply)
		if err != nil {
			b.Fatal(err)
		}
		benchWebSocket(b, seal, open, tunnel.MaxChunk)
	})
}

const benchPiece = 1 << 20

func benchTunnel(b *testing.B, verified bool) {
	s, host := launchVerified(b)
	r := client.TunnelRequest{}
	if verified {
		r.Identity = &host
	}
	total := make(chan int64, 1)
	r.Port = guest(b, func(c net.Conn) {
		n, _ := io.Copy(io.Discard, c)
		total <- n
	})
	c, err := s.DialTunnel(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, benchPiece)
	b.SetBytes(benchPiece)
	var sent int64
	for b.Loop() {
		n, err := c.Write(data)
		if err != nil {
			b.Fatal(err)
		}
		sent += int64(n)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
	if got := <-total; got != sent {
		b.Fatalf("the guest got %d of %d bytes", got, sent)
	}
}

// benchWebSocket sends messages of the given size to a server that drops them,
// sealed and opened when there is a session.
func benchWebSocket(b *testing.B, seal, open *tunnel.Session, size int) {
	total := make(chan int64, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		ws.SetReadLimit(-1)
		buf, plain := make([]byte, 1<<17), make([]byte, 0, 1<<17)
		var n int64
		defer func() { total <- n }()
		for {
			_, m, err := ws.Reader(context.Background())
			if err != nil {
				return
			}
			k, _ := io.ReadFull(m, buf)
			got := buf[:k]
			if open != nil {
				if got, _, err = open.Open(plain[:0], got); err != nil {
					return
				}
			}
			n += int64(len(got))
		}
	}))
	defer server.Close()
	ws, _, err := websocket.Dial(b.Context(), server.URL, nil)
	if err != nil {
		b.Fatal(err)
	}
	data, sealed := make([]byte, benchPiece), make([]byte, 0, size+tunnel.Overhead)
	b.SetBytes(benchPiece)
	var sent int64
	for b.Loop() {
		for off := 0; off < len(data); off += size {
			out := data[off : off+size]
			if seal != nil {
				if out, err = seal.Seal(sealed, out); err != nil {
					b.Fatal(err)
				}
			}
			if err := ws.Write(context.Background(), websocket.MessageBinary, out); err != nil {
				b.Fatal(err)
			}
			sent += int64(size)
		}
	}
	ws.Close(1000, "")
	if got := <-total; got != sent {
		b.Fatalf("the server got %d of %d bytes", got, sent)
	}
}
