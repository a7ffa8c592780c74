package main

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/coder/websocket"
	"github.com/flynn/noise"
)

// peerSocket is the route of the bare WebSocket: ?sealed=BOOL&bytes=N.
const peerSocket = "/socket"

// serveSocket adds a WebSocket that opens and drops what it gets, and says a
// word once it has got that many bytes of user data.
func serveSocket(mux *http.ServeMux) {
	mux.HandleFunc("GET "+peerSocket, func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return // answered
		}
		defer ws.CloseNow()
		ws.SetReadLimit(-1)
		ctx := context.Background() // a hijacked request's own has ended
		n, err := strconv.ParseInt(r.FormValue("bytes"), 10, 64)
		if err == nil && dropAll(ctx, ws, r.FormValue("sealed") == "true", n) == nil {
			_ = ws.Write(ctx, websocket.MessageText, []byte("all"))
		}
	})
}

func dropAll(ctx context.Context, ws *websocket.Conn, sealed bool, n int64) error {
	var open *noise.CipherState
	if sealed {
		var err error
		if open, err = respond(ctx, ws); err != nil {
			return err
		}
	}
	buf, plain := make([]byte, 128<<10), make([]byte, 0, 128<<10)
	for n > 0 {
		_, message, err := ws.Reader(ctx)
		if err != nil {
			return err
		}
		k, err := io.ReadFull(message, buf)
		if err != io.ErrUnexpectedEOF {
			return err // longer than any message here
		}
		data := buf[:k]
		if open != nil {
			if data, err = open.Decrypt(plain[:0], nil, data); err != nil {
				return err
			}
		}
		n -= int64(len(data))
	}
	return nil
}

// respond makes the far side of the handshake and reads the ready word.
func respond(ctx context.Context, ws *websocket.Conn) (*noise.CipherState, error) {
	h, err := handshake(0, false)
	if err != nil {
		return nil, err
	}
	_, hello, err := ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	if _, _, _, err := h.ReadMessage(nil, hello); err != nil {
		return nil, err
	}
	reply, open, _, err := h.WriteMessage(nil, []byte{1})
	if err != nil {
		return nil, err
	}
	if err := ws.Write(ctx, websocket.MessageBinary, reply); err != nil {
		return nil, err
	}
	_, ready, err := ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	_, err = open.Decrypt(nil, nil, ready)
	return open, err
}
