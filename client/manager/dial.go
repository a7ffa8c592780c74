package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/client"
)

// settings are what options change.
type settings struct {
	log         *slog.Logger
	dialTimeout time.Duration
	keepAlive   time.Duration
	maxMessage  int64
	retry       client.Retry

	reconnecting func(cause error) // nil: nobody is told
}

func newSettings(opts []Option) settings {
	s := settings{log: slog.New(slog.DiscardHandler), dialTimeout: 10 * time.Second, maxMessage: msp.MaxMessageBytes, retry: client.DefaultRetry()}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

// Option changes one setting of [Dial], [NewSession] or [ReadStatus].
type Option func(*settings)

// WithLogger sets where the client logs: one debug record a request and an
// event. The default discards. Payloads are never logged.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) {
		if l != nil {
			s.log = l
		}
	}
}

// WithDialTimeout bounds connecting, the upgrade and the hello together. Default
// 10 s.
func WithDialTimeout(d time.Duration) Option {
	return func(s *settings) {
		if d > 0 {
			s.dialTimeout = d
		}
	}
}

// WithKeepAlive pings the manager after each d and takes the connection for lost
// when the answer does not come within another d. Default: none, because a
// manager answers no ping while it waits for this client to read.
func WithKeepAlive(d time.Duration) Option {
	return func(s *settings) { s.keepAlive = max(d, 0) }
}

// WithMaxMessageBytes bounds the messages of both sides. Default 64 MiB, which
// is the manager's own default: a larger request would cost the connection.
func WithMaxMessageBytes(n int64) Option {
	return func(s *settings) {
		if n > 0 {
			s.maxMessage = n
		}
	}
}

// WithRetry sets how a [Session] connects again: the delays before the first,
// second, … try, and for how many tries in a row. Poll is not used.
func WithRetry(r client.Retry) Option {
	return func(s *settings) {
		if len(r.Delays) == 0 {
			r.Delays = client.DefaultRetry().Delays
		}
		s.retry = r
	}
}

// WithReconnecting has a [Session] call f when it has lost a connection and is
// about to dial again, with the reason of the loss. f is called once a loss, ahead
// of the first try, by the goroutine that waits; it must return soon and use no
// Session. It is not called for the one try after the ending of a followed run.
func WithReconnecting(f func(cause error)) Option {
	return func(s *settings) { s.reconnecting = f }
}

// Dial connects to the manager at address: the path of a unix socket (also as
// unix:PATH), a URL, or host:port. Without a scheme, a path is what begins with
// /, ./, ../ or @, ends in .sock or .socket, has a slash behind a part without a
// colon, or names a socket that exists. It returns once the manager has said
// hello. ctx bounds the dialling only.
//
// Errors: KindInvalidArg for an address that cannot be used, KindRetryable when
// nothing listens, and KindProtocol when what answers is no manager, or one of
// another protocol.
func Dial(ctx context.Context, address string, opts ...Option) (*Client, error) {
	at, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	return dial(ctx, at, newSettings(opts))
}

func dial(caller context.Context, at address, s settings) (*Client, error) {
	// MCLIENT-21: the hello is part of it: what says nothing is no manager.
	ctx, cancel := context.WithTimeoutCause(caller, s.dialTimeout, errDialTimeout)
	defer cancel()
	failed := func(err error) error {
		switch {
		case caller.Err() != nil:
			return stopped("the manager", caller)
		case ctx.Err() != nil:
			err = fmt.Errorf("no hello within %v", s.dialTimeout)
		default:
			err = plain(err)
		}
		return &client.Error{Kind: client.KindRetryable, Wire: client.WireTransport, Message: "cannot connect to the manager at " + at.String(), Err: err}
	}
	httpClient, transport := at.httpClient()
	ws, resp, err := websocket.Dial(ctx, at.base+msp.Path, &websocket.DialOptions{HTTPClient: httpClient, HTTPHeader: http.Header{"User-Agent": {"microvm-client"}}})
	transport.CloseIdleConnections()
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return nil, refusedUpgrade(at, resp)
		}
		return nil, failed(err)
	}
	ws.SetReadLimit(s.maxMessage)
	hello, err := readHello(ctx, ws)
	if err != nil {
		ws.CloseNow()
		var known *client.Error
		if errors.As(err, &known) {
			return nil, err
		}
		return nil, failed(err)
	}
	return newClient(ws, at, hello, s), nil
}

// plain takes the words of the layers between off a failure to connect.
func plain(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op
	}
	return err
}

var errDialTimeout = errors.New("the dial timeout passed")

// refusedUpgrade is the error of an answer in place of the upgrade.
func refusedUpgrade(at address, resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxText))
	cause := &client.APIError{Method: http.MethodGet, Path: msp.Path, Status: resp.StatusCode, Detail: string(body)}
	return &client.Error{Kind: client.KindProtocol, Message: fmt.Sprintf("no manager answers at %v", at), Err: cause}
}

// readHello reads the first message, which says who answers.
func readHello(ctx context.Context, ws *websocket.Conn) (msp.Hello, error) {
	kind, message, err := ws.Read(ctx)
	if err != nil {
		return msp.Hello{}, err
	}
	header, payload, err := msp.ParseHeader(message)
	if err != nil || kind != websocket.MessageBinary || header != (msp.Header{Method: msp.MethodHello}) {
		// MCLIENT-2: without the boot id no run has an identity.
		return msp.Hello{}, protocolError("the first message is no hello: this is no manager")
	}
	var p msp.HelloPayload
	if err := (calldata.Options{IgnoreUnknown: true}).Unmarshal(payload, &p); err != nil {
		return msp.Hello{}, protocolError("cannot read the hello: %v", err)
	}
	// MCLIENT-1: another major may mean the same octets otherwise.
	if p.Hello.ProtocolMajor != msp.ProtocolMajor {
		return msp.Hello{}, protocolError("the manager speaks protocol %d, this client %d: use a client of its version", p.Hello.ProtocolMajor, msp.ProtocolMajor)
	}
	return p.Hello, nil
}
