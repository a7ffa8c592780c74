package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

const (
	streamLimitName = "stream of 1 GiB over SSE, beside the limit program"
	streamName      = "stream of 1 GiB over SSE"
	floodName       = "stream of a child that waits for nobody: delivered"
	floodLostName   = "the same: share that reached the reader"
	heldName        = "poll of 8 MiB of held output"
	encodeName      = "poll of 8 MiB, beside encoding/json"
)

func (b *bench) streamExperiment() experiment {
	return experiment{name: "daemon stream", setup: b.setup, round: b.stream, figures: []figure{
		{"daemon", streamLimitName, "MB/s", "daemon/pipe, SSE at 16 KiB events, no child", atLeast(0.85)},
		{"daemon", streamName, "MB/s", "a bare net/http handler, the same events from memory", target{}},
		{"daemon", floodName, "MB/s", "", target{}},
		{"daemon", floodLostName, "%", "", target{}},
	}}
}

// stream measures output that arrives whole: the child is paced by the reader,
// because one that is not may outrun every reader, and what is lost costs
// nothing. The unpaced child is shown beside it.
func (b *bench) stream(ctx context.Context, r *round) error {
	n := b.w.size.streamBytes
	var ours, bare time.Duration
	others, err := r.span(func() error {
		return r.inTurns(func() (err error) {
			ours, err = b.pacedStream(ctx, b.daemon, fmt.Sprintf("stream-%d", r.number), n)
			return err
		}, func() error {
			t := time.Now()
			resp, err := b.http.Get("http://" + b.peer.addr + peerEvents + "?bytes=" + strconv.FormatInt(n, 10))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			end, err := readEvents(resp.Body, nil)
			bare = time.Since(t)
			if err == nil && end.delivered != n {
				err = fmt.Errorf("the bare handler delivered %d bytes of %d", end.delivered, n)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	rate := megabytes(n, ours)
	r.add(streamName, rate, megabytes(n, bare), others)
	limit, othersThen, err := b.limitSSE(ctx, r)
	if err != nil {
		return err
	}
	r.add(streamLimitName, rate, limit, max(others, othersThen))
	return b.flood(ctx, r)
}

// flood streams a child that writes as fast as it can.
func (b *bench) flood(ctx context.Context, r *round) error {
	var end ending
	var took time.Duration
	others, err := r.span(func() (err error) {
		id := fmt.Sprintf("flood-%d", r.number)
		t := time.Now()
		if end, err = b.daemon.exec(ctx, id, "head", "-c", strconv.FormatInt(b.w.size.streamBytes, 10), "/dev/zero"); err != nil {
			return err
		}
		took = time.Since(t)
		return b.daemon.ack(ctx, id)
	})
	if err != nil {
		return err
	}
	r.add(floodName, megabytes(end.delivered, took), 0, others)
	r.add(floodLostName, 100*end.share(), 0, others)
	return nil
}

// pacedStream runs a child that writes n bytes, reads all of them and returns
// how long that took from the request to the exit event.
func (b *bench) pacedStream(ctx context.Context, d *daemon, id string, n int64) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	fifo := filepath.Join(b.w.dir, id+".credits")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		return 0, fmt.Errorf("cannot make a FIFO: %w", err)
	}
	defer os.Remove(fifo)
	// For reading too, so that opening waits for nobody.
	credits, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer credits.Close()
	t := time.Now()
	if err := d.start(ctx, id, self, "produce", "--bytes", strconv.FormatInt(n, 10), "--credits", fifo); err != nil {
		return 0, err
	}
	read := 0
	end, err := d.follow(ctx, id, func(k int) {
		if read += k; read >= creditBytes {
			_, _ = credits.Write(make([]byte, read/creditBytes))
			read %= creditBytes
		}
	})
	took := time.Since(t)
	if err != nil {
		return 0, err
	}
	if end.delivered != n || end.exitCode == nil || *end.exitCode != 0 {
		return 0, fmt.Errorf("%d bytes of %d arrived, %d were lost, exit code %v", end.delivered, n, end.lost, end.exitCode)
	}
	return took, d.ack(ctx, id)
}

func megabytes(n int64, d time.Duration) float64 { return float64(n) / 1e6 / d.Seconds() }

// limitSSE returns what the SSE limit program reaches with 16 KiB events, in
// MB/s, 0 when no folder of peers was named.
func (b *bench) limitSSE(ctx context.Context, r *round) (rate, others float64, err error) {
	program, err := b.w.limit(ctx, "daemon/pipe")
	if errors.Is(err, errNoPeer) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	var got ran
	if others, err = r.span(func() (err error) {
		got, err = call(ctx, program)
		return err
	}); err != nil {
		return 0, 0, err
	}
	rate, err = limitThroughput(got.out, "SSE base64 events of 16384 B")
	return rate, others, err
}

// limitThroughput finds the median of a line of a limit program.
func limitThroughput(out, line string) (float64, error) {
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + `\b.*\bmedian ([0-9.]+) MB/s`).FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("cannot find the median of %q in what the limit program printed: %q", line, out)
	}
	return strconv.ParseFloat(m[1], 64)
}

func (b *bench) heldExperiment() experiment {
	return experiment{name: "daemon poll of held output", setup: b.setup, round: b.held, figures: []figure{
		{"daemon", heldName, "ms", "a bare net/http handler that writes the same JSON", atMost(3)},
		{"daemon", encodeName, "ms", "a bare net/http handler, encoding/json of the same output", target{}},
	}}
}

// held polls an exited command whose output the daemon holds to its last byte.
func (b *bench) held(ctx context.Context, r *round) error {
	n := b.w.size.heldBytes
	id := fmt.Sprintf("held-%d", r.number)
	if err := b.hold(ctx, b.daemon, id, n); err != nil {
		return err
	}
	poll := b.daemon.url("/v1/exec/" + id)
	peer := "http://" + b.peer.addr
	query := "?bytes=" + strconv.Itoa(n)
	want := int64(len(pollBody(heldText(n))))
	var ours, written, encoded []float64
	one := func(spans *[]float64, c *http.Client, url string) func() error {
		return func() (err error) {
			var got int64
			*spans, err = timed(*spans, func() (err error) { got, err = get(ctx, c, url); return err })
			// The newline of an encoder and the length of the id are all that may differ.
			if err == nil && (got < want-8 || got > want+8) {
				err = fmt.Errorf("%s answered %d bytes, not about %d", url, got, want)
			}
			return err
		}
	}
	others, err := r.span(func() error {
		for range max(3, b.w.size.calls/20) {
			if err := r.inTurns(one(&ours, b.daemon.http, poll), one(&written, b.http, peer+peerHeld+query)); err != nil {
				return err
			}
			if err := one(&encoded, b.http, peer+peerEncode+query)(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.add(heldName, percentile(ours, 0.5)*1e3, percentile(written, 0.5)*1e3, others)
	r.add(encodeName, percentile(ours, 0.5)*1e3, percentile(encoded, 0.5)*1e3, others)
	return b.daemon.ack(ctx, id)
}

// hold runs a command with n bytes of output and leaves it exited.
func (b *bench) hold(ctx context.Context, d *daemon, id string, n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	end, err := d.exec(ctx, id, self, "produce", "--text", "--bytes", strconv.Itoa(n))
	if err == nil && (end.exitCode == nil || *end.exitCode != 0) {
		err = fmt.Errorf("the command did not exit with 0: %v", end.exitCode)
	}
	return err
}

func (d *daemon) url(path string) string { return "http://" + d.addr + path }
