package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	fileUpName      = "single file up, tmpfs"
	fileUpLimit     = "single file up, beside the limit program"
	fileDownName    = "single file down, tmpfs"
	fileDownLimit   = "single file down, beside the limit program"
	sendfileName    = "single file down: bytes that sendfile or splice moved"
	tarUpName       = "tar up of 10,000 files, 217 MB, tmpfs"
	tarDownName     = "tar down of the same"
	limitPut        = "PUT 512MiB -> file+rename"
	limitGet        = "GET 512MiB ServeFile"
	memoryFolder    = "/dev/shm"
	archiveFolders  = 200 // of fifty files each
	archivePerLevel = 50
)

func (b *bench) filesExperiments() []experiment {
	return []experiment{
		{name: "daemon single file", setup: b.setupFiles, round: b.singleFile, absent: noTmpfs, figures: []figure{
			{"daemon", fileUpName, "MB/s", "a bare net/http handler, io.Copy to a file", atLeast(0.85)},
			{"daemon", fileUpLimit, "MB/s", "daemon/upload, file and rename", atLeast(0.85)},
			{"daemon", fileDownName, "MB/s", "a bare net/http handler, http.ServeFile", atLeast(0.85)},
			{"daemon", fileDownLimit, "MB/s", "daemon/upload, http.ServeFile", atLeast(0.85)},
		}},
		{name: "daemon sendfile", once: true, setup: b.setupFiles, round: b.sendfile, absent: "strace is not installed", figures: []figure{
			{"daemon", sendfileName, "%", "", alone("≥", 99)},
		}},
		{name: "daemon archive", setup: b.setupFiles, round: b.archive, absent: noTmpfs, figures: []figure{
			{"daemon", tarUpName, "s", "upload to a bare handler + GNU tar reading the same archive", atMost(1.3)},
			{"daemon", tarDownName, "s", "GNU tar writing one + download from a bare handler", target{}},
		}},
	}
}

// noTmpfs says why speeds of files are not measured.
const noTmpfs = "there is no tmpfs at " + memoryFolder

// setupFiles makes a folder, in memory where it can, with a file to send and an
// archive.
func (b *bench) setupFiles(ctx context.Context) error {
	if err := b.setup(ctx); err != nil || b.files != "" {
		return err
	}
	var fs unix.Statfs_t
	parent := b.w.dir // good enough for what does not measure its speed
	if b.tmpfs = unix.Statfs(memoryFolder, &fs) == nil && fs.Type == unix.TMPFS_MAGIC; b.tmpfs {
		parent = memoryFolder
	}
	dir, err := os.MkdirTemp(parent, "bench-")
	if err != nil {
		return err
	}
	b.w.atEnd(func() { _ = os.RemoveAll(dir) })
	if err := fillFile(filepath.Join(dir, "source"), b.w.size.fileBytes); err != nil {
		return err
	}
	if err := packTree(filepath.Join(dir, "tree.tar"), b.w.size.folders); err != nil {
		return err
	}
	b.files = dir
	return nil
}

func fillFile(path string, n int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{7}).Read(block)
	for ; n > 0; n -= int64(len(block)) {
		if _, err := f.Write(block[:min(n, int64(len(block)))]); err != nil {
			return err
		}
	}
	return f.Close()
}

// packTree writes an archive of random files in six sizes: 10,000 in 200 folders
// are 217 MB, as in the tree of the limit programs.
func packTree(path string, folders int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	source := rand.NewChaCha8([32]byte{7})
	rng := rand.New(source)
	w := tar.NewWriter(f)
	for s := range folders {
		for i := range archivePerLevel {
			content := make([]byte, []int{200, 2000, 8000, 20000, 40000, 60000}[rng.IntN(6)])
			source.Read(content)
			h := &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d%d/s%d/x/f%d.bin", s%20, s, i), Mode: 0o644, Size: int64(len(content))}
			if err := w.WriteHeader(h); err != nil {
				return err
			}
			if _, err := w.Write(content); err != nil {
				return err
			}
		}
	}
	return errors.Join(w.Close(), f.Close())
}

func (b *bench) singleFile(ctx context.Context, r *round) error {
	if !b.tmpfs {
		return nil
	}
	n := b.w.size.fileBytes
	from := filepath.Join(b.files, "source")
	ours, bare := query("path", filepath.Join(b.files, "ours")), query("path", filepath.Join(b.files, "bare"))
	var up, down, bareUp, bareDown time.Duration
	others, err := r.span(func() error {
		return r.inTurns(func() (err error) {
			if up, err = b.upload(ctx, b.daemon.http, b.daemon.url("/v1/fs/file"+ours), from); err == nil {
				down, err = b.download(ctx, b.daemon.http, b.daemon.url("/v1/fs/file"+ours), n)
			}
			return err
		}, func() (err error) {
			if bareUp, err = b.upload(ctx, b.http, "http://"+b.peer.addr+peerFile+bare, from); err == nil {
				bareDown, err = b.download(ctx, b.http, "http://"+b.peer.addr+peerFile+bare, n)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	r.add(fileUpName, megabytes(n, up), megabytes(n, bareUp), others)
	r.add(fileDownName, megabytes(n, down), megabytes(n, bareDown), others)
	limitUp, limitDown, othersThen, err := b.limitUpload(ctx, r)
	r.add(fileUpLimit, megabytes(n, up), limitUp, max(others, othersThen))
	r.add(fileDownLimit, megabytes(n, down), limitDown, max(others, othersThen))
	return err
}

func query(name, value string) string { return "?" + name + "=" + url.QueryEscape(value) }

// upload puts the file at path and returns how long that took, to the answer.
func (b *bench) upload(ctx context.Context, c *http.Client, to, path string) (time.Duration, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to, f)
	if err != nil {
		return 0, err
	}
	req.ContentLength = info.Size()
	req.Header.Set("Authorization", "Bearer "+agentToken)
	t := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	detail, err := io.ReadAll(io.LimitReader(resp.Body, 500))
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("PUT %s answered %d: %s", to, resp.StatusCode, detail)
	}
	return time.Since(t), err
}

// download reads an answer of n bytes, or of any size when n is negative.
func (b *bench) download(ctx context.Context, c *http.Client, from string, n int64) (time.Duration, error) {
	t := time.Now()
	got, err := get(ctx, c, from)
	if err == nil && n >= 0 && got != n {
		err = fmt.Errorf("%s answered %d bytes of %d", from, got, n)
	}
	return time.Since(t), err
}

// limitUpload returns what the limit program reaches, in MB/s, 0 when no folder
// of peers was named.
func (b *bench) limitUpload(ctx context.Context, r *round) (up, down, others float64, err error) {
	program, err := b.w.limit(ctx, "daemon/upload")
	if errors.Is(err, errNoPeer) {
		return 0, 0, 0, nil
	}
	if err != nil {
		return 0, 0, 0, err
	}
	var got ran
	if others, err = r.span(func() (err error) {
		got, err = call(ctx, program, b.files)
		return err
	}); err != nil {
		return 0, 0, 0, err
	}
	if up, err = limitThroughput(got.out, limitPut); err != nil {
		return 0, 0, 0, err
	}
	down, err = limitThroughput(got.out, limitGet)
	return up, down, others, err
}

func (b *bench) archive(ctx context.Context, r *round) error {
	if !b.tmpfs {
		return nil
	}
	source := filepath.Join(b.files, "tree.tar")
	ours, theirs, received := filepath.Join(b.files, "tree-ours"), filepath.Join(b.files, "tree-tar"), filepath.Join(b.files, "tree.received")
	defer os.RemoveAll(ours)
	defer os.RemoveAll(theirs)
	gnu := gnuTar(ctx)
	var up, down, peerUp, peerDown time.Duration
	others, err := r.span(func() error {
		return r.inTurns(func() (err error) {
			if up, err = b.upload(ctx, b.daemon.http, b.daemon.url("/v1/fs/tar"+query("path", ours)), source); err == nil {
				down, err = b.download(ctx, b.daemon.http, b.daemon.url("/v1/fs/tar"+query("path", ours)), -1)
			}
			return err
		}, func() (err error) {
			if !gnu {
				return nil
			}
			peerUp, peerDown, err = b.tarPeer(ctx, source, theirs, received)
			return err
		})
	})
	if err != nil {
		return err
	}
	r.add(tarUpName, up.Seconds(), peerUp.Seconds(), others)
	r.add(tarDownName, down.Seconds(), peerDown.Seconds(), others)
	return nil
}

// tarPeer moves the archive through the bare handler and has GNU tar read it,
// and the other way round.
func (b *bench) tarPeer(ctx context.Context, source, tree, received string) (up, down time.Duration, err error) {
	to := "http://" + b.peer.addr + peerFile + query("path", received)
	if up, err = b.upload(ctx, b.http, to, source); err != nil {
		return 0, 0, err
	}
	if err = os.Mkdir(tree, 0o755); err != nil {
		return 0, 0, err
	}
	t := time.Now()
	if _, err = call(ctx, "tar", "xf", received, "-C", tree); err != nil {
		return 0, 0, err
	}
	up += time.Since(t)
	t = time.Now()
	if _, err = call(ctx, "tar", "cf", received, "-C", tree, "."); err != nil {
		return 0, 0, err
	}
	packed := time.Since(t)
	down, err = b.download(ctx, b.http, to, -1)
	return up, packed + down, err
}

// gnuTar reports whether tar is GNU tar.
func gnuTar(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "tar", "--version").Output()
	return err == nil && bytes.Contains(out, []byte("GNU tar"))
}
