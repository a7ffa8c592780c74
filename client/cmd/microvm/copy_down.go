package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"microvms/client"
	"microvms/client/folder"
)

// down copies out of the VM.
func (j *copying) down(ctx context.Context) error {
	src, isFolder, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	total := int64(-1)
	if sized, ok := src.(interface{ Size() int64 }); ok {
		total = sized.Size()
	}
	body := &counted{src: src, p: j.app.progress(total)}
	defer body.p.end()
	switch {
	case j.tar:
		// The archive is the copy, whatever is in it.
	case isFolder && j.local == stdio:
		return usage("%q is a folder: give --tar to write it as an archive", vmPrefix+j.remote)
	case isFolder:
		if err := j.forFolders(vmPrefix + j.remote); err != nil {
			return err
		}
		return j.downFolder(body)
	default:
		if err := j.forFiles(vmPrefix + j.remote); err != nil {
			return err
		}
	}
	if j.local == stdio {
		err = j.toOutput(body)
	} else {
		err = j.toFile(ctx, body)
	}
	j.data.Bytes = body.n
	return err
}

// open asks for the file, and for the folder where there is no file: the daemon
// refuses a folder with 400 (wire facts, section 11.1).
func (j *copying) open(ctx context.Context) (src io.ReadCloser, isFolder bool, err error) {
	if j.tar || strings.HasSuffix(j.remote, "/") || onlyContent(j.remote) {
		src, err = j.session.GetTar(ctx, j.remote)
		return src, true, err
	}
	src, err = j.session.GetFile(ctx, j.remote, client.Lines{})
	if status(err) != http.StatusBadRequest {
		return src, false, err
	}
	tree, treeErr := j.session.GetTar(ctx, j.remote)
	if code := status(treeErr); code == http.StatusBadRequest || code == http.StatusNotFound {
		return nil, false, err // neither; the first word stands
	}
	return tree, true, treeErr
}

// errOutput is the end of a copy to an output that takes no more.
var errOutput = errors.New("the output takes no more")

// outputWriter writes to stdout, and fails once that has.
type outputWriter struct{ *sink }

func (w outputWriter) Write(p []byte) (int, error) {
	if w.sink.Write(p); w.broken() {
		return 0, errOutput
	}
	return len(p), nil
}

// toOutput writes the content to stdout.
//
// CLI-39: there is no other word there, because a pipe takes it for content.
func (j *copying) toOutput(src io.Reader) error {
	_, err := io.Copy(outputWriter{j.app.stdout}, src)
	if !errors.Is(err, errOutput) {
		return err
	}
	failure := j.app.stdout.failure()
	if j.app.stdout.left() {
		return &client.Error{Kind: client.KindInterrupted, Message: "the reader of stdout left", Err: failure}
	}
	return localError("cannot write the output", failure)
}

// toFile writes the content to a local file, which is there whole or not at all.
func (j *copying) toFile(ctx context.Context, src io.Reader) error {
	target := j.local
	if info, err := os.Stat(target); strings.HasSuffix(target, "/") || (err == nil && info.IsDir()) {
		base := path.Base(path.Clean(j.remote))
		if base == "/" || j.tar {
			return usage("%q is a folder: name the file in it", target)
		}
		target = filepath.Join(target, base)
	}
	what := fmt.Sprintf("cannot write %q", target)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return localError(what, err)
	}
	if err := j.replace(ctx, target, src); err != nil {
		return localError(what, err)
	}
	j.data.Local = target
	return nil
}

// replace puts the content in the place of a file. What is no file, such as a
// device or a pipe, is written to.
func (j *copying) replace(ctx context.Context, target string, src io.Reader) error {
	perm, keep := fs.FileMode(0o666), false
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular():
		return into(ctx, target, src)
	case err == nil:
		perm, keep = info.Mode().Perm(), true
		if target, err = filepath.EvalSymlinks(target); err != nil { // the link stays
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		if _, err := os.Lstat(target); err == nil {
			return errors.New("it is a link that leads nowhere")
		}
	}
	if j.mode != nil {
		perm, keep = *j.mode, true
	}
	// CLI-37: beside the file and renamed, so that what breaks off leaves no part of it.
	part := filepath.Join(filepath.Dir(target), ".microvm-cp-"+client.NewExecID())
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, src)
	if err == nil && keep {
		err = file.Chmod(perm)
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(part, target)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}

// into writes to what exists and is no regular file.
func into(ctx context.Context, target string, src io.Reader) error {
	file, err := openFile(ctx, target, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = copyUntil(ctx, file, src)
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}

// downFolder extracts an archive of the VM, which is hostile until proven
// otherwise, below a local folder.
func (j *copying) downFolder(src io.Reader) error {
	dst := strings.TrimSuffix(j.local, "/")
	if dst == "" {
		dst = "/"
	}
	base := path.Base(path.Clean(j.remote))
	switch info, err := os.Stat(dst); {
	case err == nil && !info.IsDir():
		return &client.Error{Kind: client.KindPrecondition,
			Message: fmt.Sprintf("%q is no folder: the folder %q cannot be copied onto it", dst, vmPrefix+j.remote)}
	case err == nil && !onlyContent(j.remote) && base != "/":
		dst = filepath.Join(dst, base)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return localError(fmt.Sprintf("cannot write %q", dst), err)
	}
	sum, err := folder.Unpack(dst, src, j.excludes, j.skip)
	if err != nil {
		return j.unpackError(dst, err)
	}
	j.data.Local, j.data.Bytes = dst, sum.Bytes
	return nil
}

// unpackError tells an archive that lies from a local failure.
func (j *copying) unpackError(dst string, err error) error {
	what := fmt.Sprintf("cannot copy %q to %q", vmPrefix+j.remote, dst)
	for _, lie := range []error{folder.ErrOutside, folder.ErrThroughLink, folder.ErrSparse, folder.ErrTruncated} {
		if errors.Is(err, lie) {
			return &client.Error{Kind: client.KindProtocol, Wire: client.WireProtocolError, Message: what, Err: err}
		}
	}
	return localError(what, err)
}
