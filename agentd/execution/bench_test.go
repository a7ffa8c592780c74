package execution

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkTrue compares a command of this package, from Start to its exit
// event, with os/exec and two pipes of its own.
func BenchmarkTrue(b *testing.B) {
	b.Run("execution", func(b *testing.B) {
		r := New(Config{Retention: time.Microsecond})
		defer r.Close(context.Background())
		measure(b, func(i int) {
			e, _, err := r.Start(context.Background(), key(fmt.Sprint(i)), given(&Command{Path: "/bin/true", Args: []string{"true"}}))
			if err != nil {
				b.Fatal(err)
			}
			for reader := e.Subscribe(0); ; {
				ev, err := reader.Next(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				if ev.Kind == Exit {
					reader.Close()
					break
				}
			}
			_, _ = e.Ack()
		})
	})
	b.Run("os/exec", func(b *testing.B) {
		measure(b, func(int) {
			if err := runWithPipes(); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// measure reports the median and the 99th percentile beside the mean.
func measure(b *testing.B, f func(i int)) {
	var spans []time.Duration
	i := 0
	for b.Loop() {
		t := time.Now()
		f(i)
		spans = append(spans, time.Since(t))
		i++
	}
	slices.Sort(spans)
	b.ReportMetric(float64(spans[len(spans)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(spans[len(spans)*99/100].Nanoseconds()), "p99-ns")
}

// runWithPipes is the peer: os/exec with pipes and readers of its own.
func runWithPipes() error {
	r1, w1, err := os.Pipe()
	if err != nil {
		return err
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		return err
	}
	c := exec.Command("/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stdout, c.Stderr = w1, w2
	err = c.Start()
	w1.Close()
	w2.Close()
	done := make(chan struct{}, 2)
	for _, r := range []*os.File{r1, r2} {
		go func() {
			_, _ = io.Copy(io.Discard, r)
			r.Close()
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	if err != nil {
		return err
	}
	return c.Wait()
}

// BenchmarkThousandStarts starts 1,000 commands at once and waits for all
// exits, beside os/exec doing them in a loop.
func BenchmarkThousandStarts(b *testing.B) {
	const n = 1000
	b.Run("at once", func(b *testing.B) {
		for b.Loop() {
			r := New(Config{})
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					e, _, err := r.Start(context.Background(), key(fmt.Sprint(i)), given(&Command{Path: "/bin/true", Args: []string{"true"}}))
					if err != nil {
						b.Error(err)
						return
					}
					<-e.Done()
					if code := e.Poll().Result.ExitCode; code == nil || *code != 0 {
						b.Errorf("exit code %v", code)
					}
				})
			}
			wg.Wait()
			if err := r.Close(context.Background()); err != nil {
				b.Error(err)
			}
		}
	})
	b.Run("os/exec in a loop", func(b *testing.B) {
		for b.Loop() {
			for range n {
				if err := runWithPipes(); err != nil {
					b.Error(err)
				}
			}
		}
	})
}

// BenchmarkOutput measures output from a child to a reader, and says how much
// of it the reader lost to gaps.
func BenchmarkOutput(b *testing.B) {
	const size = 256 << 20
	for _, c := range []struct {
		readers int
		pace    *Pace
	}{{0, nil}, {1, nil}, {4, nil}, {1, DefaultPace()}, {4, DefaultPace()}} {
		readers := c.readers
		b.Run(fmt.Sprintf("readers=%d/paced=%v", readers, c.pace != nil), func(b *testing.B) {
			r := New(Config{Capture: Capture{HeadBytes: -1}, Pace: c.pace})
			defer r.Close(context.Background())
			b.SetBytes(size)
			b.ReportAllocs()
			lost, i := uint64(0), 0
			for b.Loop() {
				i++
				e, _, err := r.Start(context.Background(), key(fmt.Sprint(i)), given(&Command{
					Path: "/usr/bin/head", Args: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"},
				}))
				if err != nil {
					b.Fatal(err)
				}
				var wg sync.WaitGroup
				var mu sync.Mutex
				for range readers {
					wg.Go(func() {
						gone := drain(b, e.Subscribe(0))
						mu.Lock()
						lost += gone
						mu.Unlock()
					})
				}
				wg.Wait()
				<-e.Done()
			}
			b.ReportMetric(float64(lost)/float64(max(1, readers*i))/size, "lost/byte")
		})
	}
}

func drain(b *testing.B, r *Reader) (lost uint64) {
	defer r.Close()
	for {
		ev, err := r.Next(context.Background())
		if err != nil {
			b.Error(err)
			return lost
		}
		switch ev.Kind {
		case Gap:
			lost += ev.To - ev.Offset
		case Exit:
			return lost
		}
	}
}
