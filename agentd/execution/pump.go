package execution

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"microvms/agentd/trace"
)

// buffers holds the memory for one read. A pump takes a buffer only once its
// pipe has bytes, so a command that prints nothing holds none.
var buffers = sync.Pool{New: func() any { return new([DefaultReadUnit]byte) }}

// pump reads a pipe to its end, also long after the command's: a grandchild
// that writes on must neither block nor get SIGPIPE. It ends at the last
// writer's close, or at Registry.Close.
func (e *Exec) pump(f *os.File, sink func([]byte), name string) {
	defer e.reg.wg.Done()
	defer f.Close()
	conn, err := f.SyscallConn()
	for err == nil {
		var buf *[DefaultReadUnit]byte
		var n int
		var readErr error
		err = conn.Read(func(fd uintptr) bool {
			buf = buffers.Get().(*[DefaultReadUnit]byte)
			n, readErr = readPipe(int(fd), buf[:min(e.store.cap.ReadUnit, len(buf))])
			if readErr == unix.EAGAIN {
				buffers.Put(buf)
				buf = nil
				return false
			}
			return true
		})
		if err == nil && n > 0 {
			sink(buf[:n])
		}
		if buf != nil {
			buffers.Put(buf)
		}
		if err == nil && n <= 0 {
			break
		}
	}
	if err != nil && e.reg.base.Err() == nil && !e.pipesCut() {
		e.reg.cfg.Log.Error("cannot read a pipe", "exec_id", e.key.ID, "err", err)
	}
	e.pipeEnded(name)
}

// pipesCut reports whether the pipes were closed under their readers, as CutPipes
// asks for. The error of such a read is none that errors.Is knows.
func (e *Exec) pipesCut() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cmd.CutPipes && e.phase != PhaseRunning
}

func readPipe(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// publish enters bytes into the store, unless the terminal marker was set:
// then they are dropped, since the total that readers were told is final.
func (e *Exec) publish(s Stream, p []byte) {
	if e.reg.cfg.Gate != nil && e.Poll().Phase == PhaseRunning {
		if e.reg.pass(e.reg.base, e.point(e.reg.base, trace.OutputPublish)) != nil {
			return
		}
	}
	e.pace(len(p)) // OUT-21: before the bytes enter, because then the ring has dropped others
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase != PhaseRunning {
		return // OUT-19: read on and dropped
	}
	at := e.store.ring.total
	e.store.publish(s, p)
	e.wakeLocked()
	if e.reg.cfg.Recorder != nil {
		e.noteLocked(e.reg.base, trace.OutputPublish,
			trace.Attr{Key: "stream", Value: s.String()},
			trace.Attr{Key: "offset", Value: int64(at)},
			trace.Attr{Key: "bytes", Value: int64(len(p))})
	}
}

// pipeEnded counts a pipe that will bring nothing more.
func (e *Exec) pipeEnded(name string) {
	if e.reg.pass(e.reg.base, e.point(e.reg.base, trace.OutputEOF)) != nil {
		return
	}
	e.mu.Lock()
	e.open--
	last := e.open == 0
	if last {
		close(e.drained)
	}
	if e.phase == PhaseRunning {
		e.noteLocked(e.reg.base, trace.OutputEOF, trace.Attr{Key: "stream", Value: name})
	}
	e.mu.Unlock()
	if last {
		e.reg.drop(e)
	}
}
