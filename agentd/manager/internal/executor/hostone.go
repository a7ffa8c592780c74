package executor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/api/msp"
)

// hostOne serves the host connection that is the manager's: it takes the
// result, answers which executor serves a call, and runs nested executors
// (manager facts, section 8). All numbers are little-endian. The end of the
// stream ends it, and so does everything that it does not answer: then the
// connection is closed, and the executor sees that nobody listens.
type hostOne struct {
	strict bool  // results are validated
	hooked bool  // calls across contracts are host 0's to resolve
	limit  int64 // of a result and of an envelope, in bytes
	nested func(ctx context.Context, envelope []byte) []byte
	log    *slog.Logger

	ctx    context.Context // ends with the executor
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is served any more

	mu       sync.Mutex
	conn     *os.File // nil: not opened
	consumed []byte   // nil: no result was taken
}

// open makes the connection and returns the executor's end.
func (h *hostOne) open() (int, error) {
	mine, theirs, err := pair()
	if err != nil {
		return -1, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conn = os.NewFile(uintptr(mine), "host 1")
	return theirs, nil
}

// taken is the result, nil when there is none.
func (h *hostOne) taken() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.consumed
}

// close ends the serving.
func (h *hostOne) close() {
	h.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn != nil {
		_ = h.conn.Close() // maybe for the second time: serve ends with it, too
	}
}

// serve answers methods until the first that it does not answer.
func (h *hostOne) serve() {
	defer close(h.done)
	defer h.close()
	for {
		var method [1]byte
		if _, err := io.ReadFull(h.conn, method[:]); err != nil {
			return
		}
		if err := h.answer(msp.HostMethod(method[0])); err != nil {
			h.log.Warn("host connection of the manager is not served any more", "method", method[0], "err", err)
			return
		}
	}
}

var errNotServed = errors.New("method is not the manager's to answer")

func (h *hostOne) answer(m msp.HostMethod) error {
	switch m {
	case msp.HostConsumeResult:
		return h.consumeResult()
	case msp.HostResolveExecutor:
		if h.hooked {
			return errNotServed // EXECUTOR-35: the executor was told to ask host 0
		}
		var args [22]byte
		if _, err := io.ReadFull(h.conn, args[:]); err != nil {
			return err
		}
		// EXECUTOR-35: no error, one byte, null: the manager has no opinion.
		_, err := h.conn.Write([]byte{0, 1, 0, 0, 0, 0})
		return err
	case msp.HostRunNested:
		return h.runNested()
	}
	return errNotServed // EXECUTOR-36
}

// consumeResult takes a result and answers it.
func (h *hostOne) consumeResult() error {
	n, err := h.length()
	if err != nil {
		return err
	}
	if h.taken() != nil {
		// EXECUTOR-33: the first one counts; further ones are read to keep the protocol going.
		if _, err := io.CopyN(io.Discard, h.conn, n); err != nil {
			return err
		}
		_, err := h.conn.Write([]byte{0})
		return err
	}
	blob, err := h.read(n)
	if err != nil {
		return err
	}
	if h.strict {
		// EXECUTOR-34: without an answer, and the result stays null.
		if _, blob, err = judge(blob); err != nil {
			return fmt.Errorf("cannot take the result: %w", err)
		}
	}
	h.mu.Lock()
	h.consumed = blob
	h.mu.Unlock()
	// EXECUTOR-31: after it is stored, so that an executor that has the answer may exit.
	_, err = h.conn.Write([]byte{0})
	return err
}

// runNested runs what the envelope asks for. Meanwhile it watches whether the
// executor is still there.
func (h *hostOne) runNested() error {
	n, err := h.length()
	if err != nil {
		return err
	}
	envelope, err := h.read(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if h.hungUp() {
			cancel() // EXECUTOR-40
		}
	}()
	reply := h.nested(ctx, envelope)
	// A time in the past ends the watch, whatever the clock says.
	if err := h.conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		h.close()
	}
	<-watched
	if err := h.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	_, err = h.conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(reply))), reply...))
	return err
}

// hungUp waits until the other end is closed everywhere, and reports false when
// the wait was called off. It takes no byte.
func (h *hostOne) hungUp() bool {
	raw, err := h.conn.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd)}} // a hang-up is told without being asked for
		_, _ = unix.Poll(fds, 0)
		gone = fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		return gone
	})
	return err == nil && gone
}

// length reads how many bytes follow.
func (h *hostOne) length() (int64, error) {
	var head [4]byte
	if _, err := io.ReadFull(h.conn, head[:]); err != nil {
		return 0, err
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if n > h.limit {
		// EXECUTOR-32: judged before anything is read.
		return 0, fmt.Errorf("%d bytes are announced, the most is %d", n, h.limit)
	}
	return n, nil
}

// read takes n bytes. The memory grows with what arrives, not with what was
// announced.
func (h *hostOne) read(n int64) ([]byte, error) {
	// EXECUTOR-32: an executor that lies about a length pays for its own bytes only.
	buf := bytes.NewBuffer(make([]byte, 0, min(n, 4096)))
	if _, err := io.CopyN(buf, h.conn, n); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
