package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"microvms/agentd/api"
	"microvms/client"
	"microvms/client/folder"
)

// up copies into the VM.
func (j *copying) up(ctx context.Context) error {
	if j.local == stdio {
		src, stop := j.app.input(ctx)
		defer stop()
		if j.tar {
			return j.upTar(ctx, src, -1)
		}
		return j.upFile(ctx, "", src, -1)
	}
	// Followed: a link that the caller names is meant for what it leads to.
	info, err := os.Stat(j.local)
	if err != nil {
		return localError(fmt.Sprintf("cannot copy %q", j.local), err)
	}
	if info.IsDir() {
		if j.tar {
			return usage("%q is a folder: leave --tar out, which is for an archive", j.local)
		}
		return j.upFolder(ctx)
	}
	if err := j.forFiles(j.local); err != nil {
		return err
	}
	file, err := openFile(ctx, j.local, os.O_RDONLY, 0)
	if err != nil {
		return localError(fmt.Sprintf("cannot copy %q", j.local), err)
	}
	defer file.Close()
	src, size := io.Reader(file), int64(-1)
	if info.Mode().IsRegular() {
		// CLI-34: what the daemon gives to a file without a mode is not what it had here.
		if perm := info.Mode().Perm(); j.mode == nil {
			j.mode = &perm
		}
		if size = info.Size(); size > 0 { // below /proc, the size is not known
			src = io.LimitReader(file, size)
		}
	} else {
		waiting, stop := inputUntil(ctx, file)
		defer stop()
		src = waiting
	}
	if j.tar {
		return j.upTar(ctx, src, size)
	}
	return j.upFile(ctx, filepath.Base(j.local), src, size)
}

// upFile writes one file. base is its name in a folder, "" for input, which has
// none.
func (j *copying) upFile(ctx context.Context, base string, src io.Reader, size int64) error {
	dst := j.remote
	into := strings.HasSuffix(dst, "/")
	if !into {
		place, err := j.look(ctx, dst)
		if err != nil {
			return err
		}
		into = place == isFolder
	}
	if into {
		if base == "" {
			return usage("%q is a folder: name the file in it", vmPrefix+dst)
		}
		dst = below(dst, base)
	}
	opts := client.PutFileOptions{Size: max(size, 0)}
	if j.mode != nil && *j.mode == 0 { // the wire has no word for it: without a mode it is 0644
		return usage("a file that nobody may use cannot be made in the VM: give another --mode")
	}
	if j.mode != nil {
		opts.Mode = *j.mode
	}
	body := &counted{src: src, p: j.app.progress(size)}
	defer body.p.end()
	if err := j.session.PutFile(ctx, dst, body, opts); err != nil {
		return spoilt(dst, err)
	}
	j.data.Remote, j.data.Bytes = vmPrefix+dst, body.n
	return nil
}

// spoilt says what an upload that failed has done to a file that was there.
//
// CLI-46: the wire writes in place and cannot rename (wire facts, section 11.2),
// so that what was there does not come back.
func spoilt(dst string, err error) error {
	switch code := status(err); {
	case client.KindOf(err) == client.KindInvalidArg,
		code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusRequestEntityTooLarge, code == http.StatusServiceUnavailable:
		return err // refused before the file was opened
	}
	return &commandError{err: err, suggestions: []string{fmt.Sprintf(
		"if %s was there before, its old content may be gone: a file in the VM is written in place; copy it again", vmPrefix+dst)}}
}

// upTar sends an archive as it is.
func (j *copying) upTar(ctx context.Context, src io.Reader, size int64) error {
	src, err := j.archive(src)
	if err != nil {
		return err
	}
	body := &counted{src: src, p: j.app.progress(size)}
	defer body.p.end()
	if err := j.session.PutTar(ctx, j.remote, body); err != nil {
		return refusedArchive(err)
	}
	j.data.Bytes = body.n
	return nil
}

// archive looks at the first header of what is to be sent.
//
// CLI-47: the daemon tells only once it has all, and by a status that reads like
// a failure of its own.
func (j *copying) archive(src io.Reader) (io.Reader, error) {
	const header = 512
	ahead := bufio.NewReaderSize(src, 32<<10)
	block, err := ahead.Peek(header)
	switch {
	case err != nil && err != io.EOF:
		return nil, localError(fmt.Sprintf("cannot read %q", j.local), err)
	case bytes.HasPrefix(block, []byte{0x1f, 0x8b}):
		return nil, usage("%q is compressed with gzip: uncompress it, as gzip -dc does", j.local)
	case err != nil:
		return nil, usage("%q is no tar archive: it has only %d bytes", j.local, len(block))
	}
	if _, err := tar.NewReader(bytes.NewReader(block)).Next(); errors.Is(err, tar.ErrHeader) {
		return nil, usage("%q is no tar archive: it does not begin with a header; to copy it as a file, leave --tar out", j.local)
	}
	return ahead, nil
}

// refusedArchive tells an archive that the daemon refuses for what is in it from
// a failure of the daemon: both have status 500 (wire facts, section 11.5).
func refusedArchive(err error) error {
	var apiErr *client.APIError
	if errors.As(err, &apiErr) && strings.HasPrefix(apiErr.Detail, api.ArchiveRefused) {
		// CLI-47: sent again, it is refused again.
		return &commandError{own: true, suggestions: []string{"make the archive anew: what was sent stays as it is"},
			err: &client.Error{Kind: client.KindProtocol, Wire: client.WireKindOf(err), Err: apiErr}}
	}
	return err
}

// upFolder sends a folder as an archive that is made on the way.
func (j *copying) upFolder(ctx context.Context) error {
	if err := j.forFolders(j.local); err != nil {
		return err
	}
	list, err := folder.List(j.local, j.excludes)
	if err != nil {
		var leads *folder.LinkError
		err = localError(fmt.Sprintf("cannot copy %q", j.local), err)
		if errors.As(err, &leads) {
			// CLI-36: found before the first byte, because the daemon refuses the whole archive.
			err = &commandError{err: err, suggestions: []string{fmt.Sprintf("leave it out with --exclude '/%s'", leads.Name)}}
		}
		return err
	}
	defer list.Close()
	for _, name := range list.Skipped {
		j.skip(name, "it is no file, folder or link")
	}
	root, prefix, err := j.folderPlace(ctx)
	if err != nil {
		return err
	}
	pr, pw := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		pw.CloseWithError(list.Pack(pw, prefix))
	}()
	body := &counted{src: pr, p: j.app.progress(list.Bytes)}
	err = j.session.PutTar(ctx, root, body)
	body.p.end()
	pr.Close()
	<-packed
	if err != nil {
		return err
	}
	j.data.Remote, j.data.Bytes = vmPrefix+strings.TrimSuffix(below(root, prefix), "/"), list.Bytes
	if j.data.Remote == vmPrefix {
		j.data.Remote += "/"
	}
	return nil
}

// folderPlace says below which folder of the VM the archive goes, and under
// which name the local folder stands in it: inside an existing folder under its
// own name, else as the name that was asked for. Its content alone goes up when
// it is named with a dot at the end.
func (j *copying) folderPlace(ctx context.Context) (root, prefix string, err error) {
	dst := strings.TrimRight(j.remote, "/")
	name := filepath.Base(j.local)
	if onlyContent(j.local) || name == string(filepath.Separator) {
		return below(dst, ""), "", nil
	}
	place, err := j.look(ctx, j.remote)
	if err != nil {
		return "", "", err
	}
	switch place {
	case isFolder:
		return below(dst, ""), name, nil
	case isOther:
		return "", "", &client.Error{Kind: client.KindPrecondition,
			Message: fmt.Sprintf("%q is no folder: the folder %q cannot be copied onto it", vmPrefix+dst, j.local)}
	}
	if base := path.Base(dst); base != "." && base != ".." {
		return path.Dir(dst), base, nil
	}
	return dst, "", nil
}

// onlyContent says whether a path names the content of a folder: its last name
// is a dot or two.
func onlyContent(name string) bool {
	last := name[strings.LastIndexByte(name, '/')+1:]
	return last == "." || last == ".."
}

// below is a path in a folder of the VM. Nothing is resolved: ".." behind a link
// is not what it looks like.
func below(dir, name string) string { return strings.TrimRight(dir, "/") + "/" + name }

// What a path of the VM is.
const (
	isAbsent = iota
	isFolder
	isOther
)

// look asks what a path of the VM is. The dot makes the daemon refuse whatever
// it is, so that no content is sent and no pipe is waited for: 400 for a folder,
// 404 for nothing, 500 for what is no folder (wire facts, section 11.1).
func (j *copying) look(ctx context.Context, name string) (int, error) {
	r, err := j.session.GetFile(ctx, below(name, "."), client.Lines{})
	if err == nil {
		r.Close()
		return isOther, nil
	}
	switch status(err) {
	case http.StatusBadRequest:
		return isFolder, nil
	case http.StatusNotFound:
		return isAbsent, nil
	case http.StatusInternalServerError:
		return isOther, nil
	}
	return 0, err
}

// warnOfOwner says when what was copied belongs to another than the user that
// commands run as: the daemon writes as root.
func (j *copying) warnOfOwner(ctx context.Context) {
	d, err := j.session.Discovery(ctx)
	if err != nil || d.DefaultUser == nil {
		return // the copy is made, and not knowing this takes nothing away
	}
	user, _, _ := strings.Cut(*d.DefaultUser, ":")
	if user == "" || user == "root" || user == "0" {
		return
	}
	// CLI-44: named with its remedy, because the failure comes later and elsewhere.
	j.warnings = append(j.warnings, fmt.Sprintf("%s belongs to root, and commands run as %q: to change that, microvm exec --user 0 -- chown -R %s %s",
		j.data.Remote, *d.DefaultUser, *d.DefaultUser, shellWord(strings.TrimPrefix(j.data.Remote, vmPrefix))))
}

// shellWord quotes a word for a shell.
func shellWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
