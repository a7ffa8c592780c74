package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// The figures of the manager. One manager and one peer server live through all
// rounds.

const (
	runName           = "run of true, request to finished event, p50"
	runTailName       = "run of true, p99 beside its p50"
	rateName          = "10,000 runs over 64 connections"
	besideName        = "control reply beside 10,000 waiting pages, max"
	besideP99         = "control reply beside 10,000 waiting pages, p99"
	aheadName         = "ending on the connection that waits for 10,000 pages, max"
	requestEncodeName = "run request, encode"
	requestDecodeName = "run request, decode"
	requestEncodeCBOR = "run request, encode, beside CBOR"
	requestDecodeCBOR = "run request, decode, beside CBOR"
	managerConns      = 64
)

type managerBench struct {
	w       *workshop
	manager *process
	peer    *process
}

func managerExperiments(w *workshop) []experiment {
	b := &managerBench{w: w}
	return []experiment{
		{name: "manager run of true", setup: b.setup, round: b.latency, figures: []figure{
			{"manager", runName, "ms", "os/exec with own pipes + one WebSocket round trip", atMost(1.3)},
			{"manager", runTailName, "ms", "its own p50", target{}},
		}},
		{name: "manager 10,000 runs", setup: b.setup, round: b.rate, figures: []figure{
			{"manager", rateName, "1/s", "spawning the same, os/exec with own pipes, 2 spawners a core", atLeast(0.7)},
		}},
		{name: "manager bulk beside control", setup: b.setup, round: b.beside, figures: []figure{
			{"manager", besideName, "ms", "", alone("≤", 50)},
			{"manager", besideP99, "ms", "", target{}},
			{"manager", aheadName, "ms", "", alone("≤", 50)},
		}},
		{name: "manager run request", setup: b.setupCodec, round: b.codec, figures: []figure{
			{"manager", requestEncodeName, "µs", "encoding/json", atMost(1)},
			{"manager", requestDecodeName, "µs", "encoding/json", atMost(1)},
			{"manager", requestEncodeCBOR, "µs", "fxamacker/cbor", target{}},
			{"manager", requestDecodeCBOR, "µs", "fxamacker/cbor", target{}},
		}},
	}
}

// The executors: what does nothing, what prints, and what waits.
var benchExecutors = map[string]string{
	"bulk": fmt.Sprintf("#!/bin/sh\nexec head -c %d /dev/zero\n", bulkBytes),
	"wait": "#!/bin/sh\nexec sleep 1000\n",
}

// setup starts the manager and the peer server, once.
func (b *managerBench) setup(ctx context.Context) error {
	if b.manager != nil {
		return nil
	}
	bin, err := b.w.program(ctx, "agentd/cmd/agentd", runtime.GOARCH)
	if err != nil {
		return err
	}
	dir := filepath.Join(b.w.dir, "executors")
	for name, text := range benchExecutors {
		if err := os.MkdirAll(filepath.Join(dir, name, "bin"), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name, "bin", "genvm"), []byte(text), 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "true", "bin"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(trueProgram, filepath.Join(dir, "true", "bin", "genvm")); err != nil {
		return err
	}
	config := filepath.Join(b.w.dir, "manager.yaml")
	if err := os.WriteFile(config, []byte("permits: {total: 64, sync: 1, nondet: 1}\nlog_level: info\n"), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(bin, "manager", "--host", "127.0.0.1", "--port", "0", "--config", config, "--executors", dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	m, err := startProcess(ctx, cmd, logAddress)
	if err != nil {
		return err
	}
	b.w.atEnd(m.stop)
	p, err := startPeer(ctx)
	if err != nil {
		return err
	}
	b.w.atEnd(p.stop)
	b.manager, b.peer = m, p
	return nil
}

// latency measures in blocks, so that ours and the peer share the minute.
func (b *managerBench) latency(ctx context.Context, r *round) error {
	c, err := dialManager(ctx, b.manager.addr)
	if err != nil {
		return err
	}
	defer c.close()
	echo, _, err := websocket.Dial(ctx, "ws://"+b.peer.addr+peerEcho, nil)
	if err != nil {
		return err
	}
	defer echo.CloseNow()
	var ours, spawns, trips []float64
	payload := runPayload("true")
	block := max(1, b.w.size.calls/4)
	others, err := r.span(func() error {
		for range 4 {
			err := r.inTurns(func() (err error) {
				ours, err = c.runBlock(ctx, payload, ours, block)
				return err
			}, func() (err error) {
				for range block {
					if spawns, err = timed(spawns, spawnTrue); err != nil {
						return err
					}
					if trips, err = timed(trips, func() error { return roundTripTo(ctx, echo, payload) }); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p50, p99 := percentile(ours, 0.5)*1e3, percentile(ours, 0.99)*1e3
	r.add(runName, p50, (percentile(spawns, 0.5)+percentile(trips, 0.5))*1e3, others)
	r.add(runTailName, p99, p50, others)
	return nil
}

// runBlock times n runs, one after another; each is acked outside of the time.
func (c *managerConn) runBlock(ctx context.Context, payload string, spans []float64, n int) ([]float64, error) {
	for range n {
		t := time.Now()
		id, err := c.run(ctx, payload)
		spans = append(spans, time.Since(t).Seconds())
		if err == nil {
			err = c.ack(ctx, id)
		}
		if err == nil {
			_, err = c.next(ctx, methodAck)
		}
		if err != nil {
			return spans, err
		}
	}
	return spans, nil
}

// roundTripTo sends a message of a run request's size and reads it back.
func roundTripTo(ctx context.Context, echo *websocket.Conn, payload string) error {
	if err := echo.Write(ctx, websocket.MessageBinary, []byte(payload)); err != nil {
		return err
	}
	_, _, err := echo.Read(ctx)
	return err
}

func (b *managerBench) rate(ctx context.Context, r *round) error {
	n := b.w.size.runs
	var ours, loop time.Duration
	others, err := r.span(func() error {
		return r.inTurns(func() (err error) {
			ours, err = b.atOnce(ctx, n)
			return err
		}, func() (err error) {
			loop, err = shared(2*runtime.NumCPU(), n, func(int) (func() error, func() error, error) {
				return spawnTrue, func() error { return nil }, nil
			})
			return err
		})
	})
	if err == nil {
		r.add(rateName, float64(n)/ours.Seconds(), float64(n)/loop.Seconds(), others)
	}
	return err
}

// atOnce runs true n times over the connections, each of which has one run in
// flight, and counts one ending for each.
func (b *managerBench) atOnce(ctx context.Context, n int) (time.Duration, error) {
	payload := runPayload("true")
	return shared(managerConns, n, func(int) (one, end func() error, err error) {
		c, err := dialManager(ctx, b.manager.addr)
		if err != nil {
			return nil, nil, err
		}
		one = func() error {
			id, err := c.run(ctx, payload)
			if err != nil {
				return err
			}
			return c.ack(ctx, id)
		}
		return one, func() error { c.close(); return nil }, nil
	})
}

// shared has workers do something n times together. start gives each what it does
// and what it does at the end.
func shared(workers, n int, start func(worker int) (one, end func() error, err error)) (time.Duration, error) {
	var group sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, workers)
	t := time.Now()
	for i := range workers {
		group.Go(func() {
			one, end, err := start(i)
			if err != nil {
				errs[i] = err
				return
			}
			for errs[i] == nil && next.Add(1) <= int64(n) {
				errs[i] = one()
			}
			errs[i] = errors.Join(errs[i], end())
		})
	}
	group.Wait()
	return time.Since(t), errors.Join(errs...)
}

func (b *managerBench) setupCodec(ctx context.Context) error {
	_, err := b.w.tests(ctx, codecPackage)
	return err
}

const codecPackage = "agentd/api/msp"

// codec runs the package's own benchmarks, which encode and decode one Go value
// in three encodings.
func (b *managerBench) codec(ctx context.Context, r *round) error {
	c := &checker{w: b.w}
	spans := map[string]float64{}
	encodings := []string{"calldata", "json", "cbor"}
	others, err := r.span(func() error {
		for i := range encodings {
			encoding := encodings[(i+r.number)%len(encodings)]
			for _, direction := range []string{"encode", "decode"} {
				m, _, err := c.run(ctx, codecPackage, "BenchmarkRunRequest/"+direction+"/"+encoding, b.w.size.codec)
				if err != nil {
					return err
				}
				spans[direction+encoding] = m["ns/op"] / 1e3
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.add(requestEncodeName, spans["encodecalldata"], spans["encodejson"], others)
	r.add(requestDecodeName, spans["decodecalldata"], spans["decodejson"], others)
	r.add(requestEncodeCBOR, spans["encodecalldata"], spans["encodecbor"], others)
	r.add(requestDecodeCBOR, spans["decodecalldata"], spans["decodecbor"], others)
	return nil
}
