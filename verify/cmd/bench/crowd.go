package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	crowdName  = "1,000 execs started at once, all exits exact"
	idleName   = "resident memory, idle"
	loadName   = "resident memory, most under load, beside what must be held"
	amd64Name  = "static binary, amd64"
	arm64Name  = "static binary, arm64"
	megabyte   = 1e6
	mebibyte   = 1 << 20
	clients    = 64 // requests in flight: half of the connections that the daemon admits
	shell      = "/bin/sh"
	ringWindow = 1 << 20 // replay window that the contract has the daemon keep until collection
)

func (b *bench) crowdExperiment() experiment {
	return experiment{name: "daemon 1,000 execs at once", setup: b.setup, round: b.crowd, figures: []figure{
		{"daemon", crowdName, "s", "spawning the same in a loop, os/exec with own pipes", atMost(1.5)},
	}}
}

// crowdCode is the exit code of the i-th command.
func crowdCode(i int) int { return i % 256 }

func crowdCommand(i int) []string { return []string{shell, "-c", "exit " + strconv.Itoa(crowdCode(i))} }

func (b *bench) crowd(ctx context.Context, r *round) error {
	var ours, loop time.Duration
	others, err := r.span(func() error {
		return r.inTurns(func() (err error) {
			ours, err = b.atOnce(ctx, b.daemon, fmt.Sprintf("crowd-%d", r.number))
			return err
		}, func() error {
			t := time.Now()
			for i := range b.w.size.execs {
				command := crowdCommand(i)
				code, err := spawnWithPipes(command[0], command[1:]...)
				if err != nil || code != crowdCode(i) {
					return fmt.Errorf("command %d exited with %d: %v", i, code, err)
				}
			}
			loop = time.Since(t)
			return nil
		})
	})
	if err == nil {
		r.add(crowdName, ours.Seconds(), loop.Seconds(), others)
	}
	return err
}

// atOnce starts all commands as fast as the connections take them and follows
// each to its exit event, whose code must be its own.
func (b *bench) atOnce(ctx context.Context, d *daemon, prefix string) (time.Duration, error) {
	n := b.w.size.execs
	errs := make([]error, n)
	var group sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-gate
			end, err := d.exec(ctx, prefix+"-"+strconv.Itoa(i), crowdCommand(i)...)
			if err == nil && (end.exitCode == nil || *end.exitCode != crowdCode(i)) {
				err = fmt.Errorf("command %d exited with %v, not %d", i, end.exitCode, crowdCode(i))
			}
			errs[i] = err
		})
	}
	t := time.Now()
	close(gate)
	group.Wait()
	took := time.Since(t)
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	for i := range n {
		if err := d.ack(ctx, prefix+"-"+strconv.Itoa(i)); err != nil {
			return 0, err
		}
	}
	return took, nil
}

func (b *bench) memoryExperiment() experiment {
	return experiment{name: "daemon memory", setup: b.setupFiles, round: b.memory, figures: []figure{
		{"daemon", idleName, "MiB", "", alone("≤", 15)},
		{"daemon", loadName, "MiB", "", alone("≤", 64)},
	}}
}

// memory reads a fresh daemon idle, then its most after a crowd, a stream, and
// one poll and one flood with several readers.
func (b *bench) memory(ctx context.Context, r *round) error {
	d, err := b.w.startDaemon(ctx)
	if err != nil {
		return err
	}
	defer d.stop()
	if _, err := get(ctx, d.http, d.url("/v1/health")); err != nil {
		return err
	}
	idle, err := d.memory("VmRSS")
	if err != nil {
		return err
	}
	r.add(idleName, float64(idle)/mebibyte, 0, untimed)
	if err := b.loads(ctx, d); err != nil {
		return err
	}
	most, err := d.memory("VmHWM")
	if err != nil {
		return err
	}
	// Held at the worst moment: the head of the command in hand, and the replay windows of all three.
	held := float64(b.w.size.heldBytes + 3*ringWindow)
	r.add(loadName, (float64(most)-held)/mebibyte, 0, untimed)
	return nil
}

func (b *bench) loads(ctx context.Context, d *daemon) error {
	if _, err := b.atOnce(ctx, d, "crowd"); err != nil {
		return err
	}
	if _, err := b.pacedStream(ctx, d, "memory", b.w.size.streamBytes); err != nil {
		return err
	}
	if err := b.hold(ctx, d, "held", b.w.size.heldBytes); err != nil {
		return err
	}
	if err := b.each(func(int) error { _, err := get(ctx, d.http, d.url("/v1/exec/held")); return err }); err != nil {
		return err
	}
	if err := d.ack(ctx, "held"); err != nil {
		return err
	}
	if err := d.start(ctx, "flood", "head", "-c", strconv.FormatInt(b.w.size.streamBytes, 10), "/dev/zero"); err != nil {
		return err
	}
	if err := b.each(func(int) error { _, err := d.follow(ctx, "flood", nil); return err }); err != nil {
		return err
	}
	if err := d.ack(ctx, "flood"); err != nil {
		return err
	}
	return b.moved(ctx, d)
}

// moved sends files, an archive and tunnels through the daemon, several at once.
func (b *bench) moved(ctx context.Context, d *daemon) error {
	file := func(i int) string {
		return d.url("/v1/fs/file" + query("path", fmt.Sprintf("%s/memory-%d", b.files, i)))
	}
	tree := func(i int) string {
		return d.url("/v1/fs/tar" + query("path", fmt.Sprintf("%s/memory-tree-%d", b.files, i)))
	}
	defer func() {
		for i := range b.w.size.readers {
			_ = os.RemoveAll(fmt.Sprintf("%s/memory-%d", b.files, i))
			_ = os.RemoveAll(fmt.Sprintf("%s/memory-tree-%d", b.files, i))
		}
	}()
	return b.each(func(i int) error {
		_, err := b.upload(ctx, d.http, file(i), b.files+"/source")
		if err == nil {
			_, err = b.download(ctx, d.http, file(i), b.w.size.fileBytes)
		}
		if err == nil {
			_, err = b.upload(ctx, d.http, tree(i), b.files+"/tree.tar")
		}
		if err == nil {
			_, err = b.download(ctx, d.http, tree(i), -1)
		}
		for _, sealed := range []bool{false, true} {
			if err == nil {
				_, err = b.throughTunnel(ctx, d, sealed, b.w.size.tunnelBytes)
			}
		}
		return err
	})
}

// each runs f once for each reader, all at once.
func (b *bench) each(f func(i int) error) error {
	errs := make([]error, b.w.size.readers)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (b *bench) binaryExperiment() experiment {
	return experiment{name: "daemon binaries", once: true, round: b.binaries, figures: []figure{
		{"daemon", amd64Name, "MB", "", target{}},
		{"daemon", arm64Name, "MB", "", alone("≤", 12)},
	}}
}

func (b *bench) binaries(ctx context.Context, r *round) error {
	for name, arch := range map[string]string{amd64Name: "amd64", arm64Name: "arm64"} {
		path, err := b.w.program(ctx, "agentd/cmd/agentd", arch)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		r.add(name, float64(info.Size())/megabyte, 0, untimed)
	}
	return nil
}
