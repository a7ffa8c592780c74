package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// moduleMarker makes the test binary the program of a module.
const moduleMarker = "replay-module"

func init() {
	if len(os.Args) > 1 && os.Args[1] == moduleMarker {
		if err := serveModule(3); err != nil {
			fmt.Fprintf(os.Stderr, "module: %v\n", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serveModule is a module that does nothing for its runs: it waits for the end of
// each and accounts for it. It ends with its control socket.
func serveModule(control int) error {
	if err := unix.Sendmsg(control, []byte(`{"ready":true}`), nil, nil, 0); err != nil {
		return err
	}
	var runs sync.WaitGroup
	defer runs.Wait()
	text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	for {
		n, oob, _, _, err := unix.Recvmsg(control, text, rights, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		var run struct{ Run uint64 }
		if err := json.Unmarshal(text[:n], &run); err != nil {
			return err
		}
		messages, err := unix.ParseSocketControlMessage(rights[:oob])
		if err != nil || len(messages) != 1 {
			return fmt.Errorf("run %d came with %d control messages: %w", run.Run, len(messages), err)
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return err
		}
		stream := os.NewFile(uintptr(fds[0]), "run")
		runs.Go(func() {
			io.Copy(io.Discard, stream)
			stream.Close()
			// When the manager is gone, nobody needs the account.
			_ = unix.Sendmsg(control, fmt.Appendf(nil, `{"run":%d,"metrics":{}}`, run.Run), nil, nil, 0)
		})
	}
}

// withModules starts both modules of each manager.
func withModules(start Starter) Starter {
	return func(ctx context.Context, o Options) (*Manager, error) {
		m, err := start(ctx, o)
		if err != nil {
			return nil, err
		}
		via := m.client()
		defer via.CloseIdleConnections()
		for _, name := range []string{"Llm", "Web"} {
			body := strings.NewReader(fmt.Sprintf(`{"module_type":%q,"config":null}`, name))
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/module/start", body)
			if err != nil {
				return nil, err
			}
			r.Header.Set("Content-Type", "application/json")
			a, err := via.Do(r)
			if err != nil {
				return nil, err
			}
			text, _ := io.ReadAll(a.Body)
			a.Body.Close()
			if a.StatusCode != http.StatusOK {
				return nil, fmt.Errorf("module %s was not started: %d %s", name, a.StatusCode, text)
			}
		}
		return m, nil
	}
}

// TestQueue replays three runs that share two permits, some of which need both:
// nobody goes ahead of who came first.
func TestQueue(t *testing.T) {
	claim(t, "MGR-9")
	t.Parallel()
	s := Spec(configured(t, "replay-queue"), "in-process", workshop(t), withModules(inProcess()))
	s.Cover.Abstract = Coarse
	judge(t, s)
}
