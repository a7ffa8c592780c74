package socket

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/manager/internal/origin"
)

// refuse answers a request that is not upgraded.
func refuse(w http.ResponseWriter, status int, reason string) {
	body, _ := json.Marshal(struct {
		Error string `json:"error"`
	}{reason}) // a string always encodes
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

// admissible judges the head of an upgrade (RFC 6455, section 4.2.1). It answers
// and reports false when the request is not upgraded.
func admissible(w http.ResponseWriter, r *http.Request) bool {
	if reason := origin.Refusal(r); reason != "" {
		// SOCKET-2: before the WebSocket's own headers, so that a page learns nothing
		// from what it is refused for.
		refuse(w, http.StatusForbidden, reason)
		return false
	}
	if !r.ProtoAtLeast(1, 1) || !names(r.Header["Connection"], "upgrade") || !names(r.Header["Upgrade"], "websocket") {
		// SOCKET-4: 426 says what is missing; the path itself exists.
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		refuse(w, http.StatusUpgradeRequired, "this path serves a WebSocket: ask for an upgrade")
		return false
	}
	if v := r.Header["Sec-Websocket-Version"]; len(v) != 1 || v[0] != "13" {
		// SOCKET-5: with the version that is spoken, as RFC 6455, section 4.2.2, asks.
		w.Header().Set("Sec-WebSocket-Version", "13")
		refuse(w, http.StatusBadRequest, "Sec-WebSocket-Version must be given once and be 13")
		return false
	}
	keys := r.Header["Sec-Websocket-Key"]
	if len(keys) != 1 || !nonce(keys[0]) {
		// SOCKET-5: one key of 16 bytes; two could be answered for two readers.
		refuse(w, http.StatusBadRequest, "Sec-WebSocket-Key must be given once and be 16 bytes in base64")
		return false
	}
	return true
}

// names reports whether a comma-separated header lists token.
func names(values []string, token string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

func nonce(key string) bool {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key))
	return err == nil && len(raw) == 16
}

// upgrade switches the connection of an admissible request to WebSocket, with a
// guard under the library's reader. pinged gets the payload of each ping, valid
// during the call, and is all that answers it: the library's own pong would give
// up on a slow reader after five seconds and close.
func upgrade(w http.ResponseWriter, r *http.Request, max uint64, closing func(), pinged func([]byte)) (*websocket.Conn, *guard, error) {
	h := &hijack{ResponseWriter: w, max: max, closing: closing}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // admissible refused every Origin
		// SOCKET-6: neither extension nor sub-protocol, so that a message on the
		// wire is a message of the protocol.
		CompressionMode: websocket.CompressionDisabled,
		OnPingReceived:  func(_ context.Context, payload []byte) bool { pinged(payload); return false },
	})
	if err != nil {
		return nil, nil, err
	}
	ws.SetReadLimit(-1) // the guard holds it
	return ws, h.guard, nil
}

// hijack gives the library the guard for the socket.
type hijack struct {
	http.ResponseWriter
	max     uint64
	closing func()
	guard   *guard
}

// Hijack takes the connection over from net/http.
func (h *hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	inner, ok := h.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("connection cannot be taken over")
	}
	c, rw, err := inner.Hijack()
	if err != nil {
		return nil, nil, err
	}
	c.SetDeadline(time.Time{}) // net/http's deadlines were for the request's head
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	h.guard = newGuard(c, bytes.NewReader(bytes.Clone(early)), h.max, h.closing)
	rw.Reader.Reset(h.guard)
	return h.guard, rw, nil
}
