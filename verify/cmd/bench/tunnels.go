package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"github.com/flynn/noise"
)

const (
	plainTunnelName    = "tunnel to the guest, plain"
	plainLimitName     = "tunnel to the guest, plain, beside the limit program"
	verifiedTunnelName = "tunnel to the guest, verified"
	verifiedLimitName  = "tunnel to the guest, verified, beside the limit program"
	limitWebSocket     = "coder/websocket client->server 61440 B msgs"
	limitWebSocketSeal = "coder/websocket + Noise ChaChaPoly 60 KiB msgs"
	plainMessage       = 64 << 10 // what one frame carries (wire facts, section 10.2)
	sealedMessage      = 32 << 10 // and one record (section 10.3)
)

func (b *bench) tunnelExperiment() experiment {
	return experiment{name: "daemon tunnel", setup: b.setup, round: b.tunnels, figures: []figure{
		{"daemon", plainTunnelName, "MB/s", "a WebSocket alone, the same messages", atLeast(0.85)},
		{"daemon", plainLimitName, "MB/s", "daemon/ws, coder/websocket at 60 KiB", atLeast(0.85)},
		{"daemon", verifiedTunnelName, "MB/s", "a WebSocket whose messages are sealed and opened", atLeast(0.85)},
		{"daemon", verifiedLimitName, "MB/s", "daemon/ws, coder/websocket + Noise at 60 KiB", atLeast(0.85)},
	}}
}

// tunnels sends to a guest that drops what it gets, plainly and sealed.
func (b *bench) tunnels(ctx context.Context, r *round) error {
	n := b.w.size.tunnelBytes
	var rates [2]float64
	for i, name := range []string{plainTunnelName, verifiedTunnelName} {
		sealed := i == 1
		var ours, alone time.Duration
		others, err := r.span(func() error {
			return r.inTurns(func() (err error) {
				ours, err = b.throughTunnel(ctx, b.daemon, sealed, n)
				return err
			}, func() (err error) {
				alone, err = sendMessages(ctx, "http://"+b.peer.addr+peerSocket+"?bytes="+strconv.FormatInt(n, 10)+"&sealed="+strconv.FormatBool(sealed), 0, sealed, n, nil)
				return err
			})
		})
		if err != nil {
			return err
		}
		rates[i] = megabytes(n, ours)
		r.add(name, rates[i], megabytes(n, alone), others)
	}
	program, err := b.w.limit(ctx, "daemon/ws")
	if errors.Is(err, errNoPeer) {
		r.add(plainLimitName, rates[0], 0, untimed)
		r.add(verifiedLimitName, rates[1], 0, untimed)
		return nil
	}
	if err != nil {
		return err
	}
	var got ran
	others, err := r.span(func() (err error) {
		got, err = call(ctx, program, "-mb", strconv.FormatInt(n>>20, 10))
		return err
	})
	if err != nil {
		return err
	}
	for name, line := range map[string]string{plainLimitName: limitWebSocket, verifiedLimitName: limitWebSocketSeal} {
		rate, err := limitThroughput(got.out, line)
		if err != nil {
			return err
		}
		r.add(name, rates[map[string]int{plainLimitName: 0, verifiedLimitName: 1}[name]], rate, others)
	}
	return nil
}

// throughTunnel sends n bytes to a guest and returns how long that took, until
// the guest has the last one.
func (b *bench) throughTunnel(ctx context.Context, d *daemon, sealed bool, n int64) (time.Duration, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	dropped := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			dropped <- err
			return
		}
		defer c.Close()
		got, err := io.CopyN(io.Discard, c, n)
		if err != nil {
			err = fmt.Errorf("the guest got %d bytes of %d: %w", got, n, err)
		}
		dropped <- err
	}()
	port := l.Addr().(*net.TCPAddr).Port
	url := d.url("/v1/tcp?port=" + strconv.Itoa(port) + "&identity=" + strconv.FormatBool(sealed))
	return sendMessages(ctx, url, uint16(port), sealed, n, dropped)
}

// sendMessages opens a WebSocket and sends n bytes over it, each message sealed
// when sealed is true. With arrived nil the far end says a word when it has all.
func sendMessages(ctx context.Context, url string, port uint16, sealed bool, n int64, arrived <-chan error) (time.Duration, error) {
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + agentToken}}})
	if err != nil {
		return 0, err
	}
	defer ws.CloseNow()
	size := int64(plainMessage)
	var seal *noise.CipherState
	if sealed {
		size = sealedMessage
		if seal, err = initiate(ctx, ws, port); err != nil {
			return 0, err
		}
	}
	data, out := make([]byte, size), make([]byte, 0, size+64)
	t := time.Now()
	for left := n; left > 0; left -= size {
		message := data[:min(size, left)]
		if seal != nil {
			if message, err = seal.Encrypt(out[:0], nil, message); err != nil {
				return 0, err
			}
		}
		if err := ws.Write(ctx, websocket.MessageBinary, message); err != nil {
			return 0, err
		}
	}
	if arrived != nil {
		err = <-arrived
	} else {
		_, _, err = ws.Read(ctx)
	}
	return time.Since(t), err
}

// The keys of the benchmark's tunnels, worth nothing elsewhere: the seed of the
// VM and the private key of the host.
var vmSeed, hostSeed = seed(7), seed(9)

func seed(b byte) []byte {
	s := make([]byte, 32)
	for i := range s {
		s[i] = b
	}
	return s
}

func keyPair(private []byte) (noise.DHKey, error) {
	return noise.DH25519.GenerateKeypair(oneRead(private))
}

// oneRead is a source of randomness that is a private key.
type oneRead []byte

func (o oneRead) Read(p []byte) (int, error) { return copy(p, o), nil }

// identity adds what launches a daemon with an identity to a run hook's payload.
func identity(payload map[string]any) error {
	host, err := keyPair(hostSeed)
	if err != nil {
		return err
	}
	payload["identity_seed"] = base64.StdEncoding.EncodeToString(vmSeed)
	payload["identity_host_public_key"] = base64.StdEncoding.EncodeToString(host.Public)
	return nil
}

// handshake is Noise KK as verified tunnels have it (wire facts, section 10.3).
func handshake(port uint16, initiator bool) (*noise.HandshakeState, error) {
	own, peer := vmSeed, hostSeed
	if initiator {
		own, peer = peer, own
	}
	ownKey, err := keyPair(own)
	if err != nil {
		return nil, err
	}
	peerKey, err := keyPair(peer)
	if err != nil {
		return nil, err
	}
	prologue := []byte("microvms-tunnel\x00Noise_KK_25519_ChaChaPoly_BLAKE2s\x002\x00/v1/tcp\x00")
	return noise.NewHandshakeState(noise.Config{
		CipherSuite: noise.NewCipherSuite(noise.DH25519, noise.CipherChaChaPoly, noise.HashBLAKE2s), Pattern: noise.HandshakeKK,
		Initiator: initiator, StaticKeypair: ownKey, PeerStatic: peerKey.Public, Prologue: binary.BigEndian.AppendUint16(prologue, port),
	})
}

// initiate makes the client's side of the handshake and says the ready word.
func initiate(ctx context.Context, ws *websocket.Conn, port uint16) (*noise.CipherState, error) {
	h, err := handshake(port, true)
	if err != nil {
		return nil, err
	}
	hello, _, _, err := h.WriteMessage(nil, []byte{1})
	if err != nil {
		return nil, err
	}
	if err := ws.Write(ctx, websocket.MessageBinary, hello); err != nil {
		return nil, err
	}
	_, reply, err := ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	_, seal, _, err := h.ReadMessage(nil, reply)
	if err != nil {
		return nil, err
	}
	ready, err := seal.Encrypt(nil, nil, []byte("microvms-tunnel-ready"))
	if err != nil {
		return nil, err
	}
	return seal, ws.Write(ctx, websocket.MessageBinary, ready)
}
