package execution

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestDeadReadersTakeNothing kills readers while others are created all the
// time: a write after the kill's answer is refused, because no process that was
// between its fork and its exec kept the dead reader's end of the pipe.
func TestDeadReadersTakeNothing(t *testing.T) {
	t.Attr("requirement", "STDIN-11")
	r := newRegistry(t, Config{})
	ctx := context.Background()
	stop := make(chan struct{})
	var storm sync.WaitGroup
	for worker := range 3 {
		storm.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, _, err := r.Start(ctx, key(fmt.Sprintf("storm-%d-%d", worker, i)), given(sh("exit 0"))); err != nil {
					t.Errorf("a start in the storm: %v", err)
					return
				}
			}
		})
	}
	for i := range 100 {
		e := start(t, r, fmt.Sprintf("reader-%d", i), withStdin("exec cat"))
		if signalled, err := e.Kill(ctx); !signalled || err != nil {
			t.Fatalf("kill %d = %v, %v", i, signalled, err)
		}
		if n, err := e.WriteStdin(ctx, []byte("lost"), false); !errors.Is(err, ErrStdinClosed) {
			t.Errorf("a write to dead reader %d = %d, %v; want ErrStdinClosed", i, n, err)
		}
	}
	close(stop)
	storm.Wait()
}
