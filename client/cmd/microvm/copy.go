package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"microvms/client"
	"microvms/client/folder"
)

// vmPrefix marks the operand that is a path in the VM.
const vmPrefix = "vm:"

// stdio is the local operand that stands for this command's own input or output.
const stdio = "-"

// copyCommand is `microvm cp`.
type copyCommand struct {
	Src     string   `arg:"" name:"src" help:"What to copy: vm:/PATH in the VM, or a local path, or - for this command's input."`
	Dst     string   `arg:"" name:"dst" help:"Where to: vm:/PATH in the VM, or a local path, or - for this command's output."`
	Tar     bool     `help:"The local side is an uncompressed tar archive; the side in the VM is the folder of its content."`
	Mode    *string  `placeholder:"OCTAL" help:"Mode of the copy of a file."`
	Exclude []string `sep:"none" placeholder:"PATTERN" help:"Leave out of a folder what matches; repeatable."`
	attach
}

// copyData is the data of microvm.copy.
type copyData struct {
	Direction string `json:"direction"` // upload or download
	Bytes     int64  `json:"bytes"`     // of content; of the archive with --tar
	Local     string `json:"local"`     // where it is now, or - for input and output
	Remote    string `json:"remote"`
	Tar       bool   `json:"tar"`
	Skipped   int    `json:"skipped"` // entries of a folder that could not be copied
}

// copying is one copy.
type copying struct {
	app      *app
	session  *client.Session
	upload   bool
	local    string
	remote   string // without the prefix
	tar      bool
	mode     *fs.FileMode
	excludes folder.Excludes
	patterns bool // some were given
	data     copyData
	warnings []string
}

func (c *copyCommand) run(ctx context.Context, a *app) (*result, error) {
	job, err := c.job(a)
	if err == nil && !job.upload && job.local == stdio {
		err = a.needOutput()
	}
	if err != nil {
		return nil, err
	}
	return a.call(ctx, c.attach, true, func(ctx context.Context, s *client.Session) (*result, error) {
		job.session = s
		if err := job.copy(ctx); err != nil {
			return nil, err
		}
		return job.result(), nil
	})
}

// job checks the operands and flags, before any request.
func (c *copyCommand) job(a *app) (*copying, error) {
	job := &copying{app: a, tar: c.Tar, patterns: len(c.Exclude) > 0}
	src, srcInVM := strings.CutPrefix(c.Src, vmPrefix)
	dst, dstInVM := strings.CutPrefix(c.Dst, vmPrefix)
	switch {
	// CLI-32: the VM has one name here, so that no file of any name is taken for it.
	case srcInVM && dstInVM:
		return nil, usage("both %q and %q are in the VM: copy there with microvm exec -- cp", c.Src, c.Dst)
	case dstInVM:
		job.upload, job.local, job.remote = true, src, dst
	case srcInVM:
		job.local, job.remote = dst, src
	default:
		return nil, usage("neither %q nor %q is in the VM: write the side in the VM as vm:/PATH", c.Src, c.Dst)
	}
	switch {
	case job.local == "":
		return nil, usage("the local path is empty: write . for the current folder")
	case !strings.HasPrefix(job.remote, "/"):
		return nil, usage("%q: a path in the VM must be absolute, as vm:/%s", vmPrefix+job.remote, job.remote)
	case strings.ContainsRune(job.remote, 0):
		return nil, usage("the path in the VM holds a NUL byte")
	case c.Tar && c.Mode != nil:
		return nil, usage("--tar and --mode exclude each other: an archive has the modes of its members")
	case c.Tar && job.patterns:
		return nil, usage("--tar and --exclude exclude each other: an archive is copied as it is")
	case !job.upload && job.local == stdio && (a.format.json || a.format.dense):
		return nil, usage("-: the output cannot hold the copy and an envelope: leave --json and --dense out, or name a file")
	case job.local == stdio && job.patterns:
		return nil, usage("--exclude is for folders, and %q is none", stdio)
	case !job.upload && job.local == stdio && c.Mode != nil:
		return nil, usage("--mode is for files, and %q is the output of this command", stdio)
	}
	var err error
	if job.excludes, err = folder.ParseExcludes(c.Exclude); err != nil {
		return nil, usage("--exclude: %v", err)
	}
	job.mode, err = parseMode(c.Mode)
	return job, err
}

// parseMode reads --mode as the daemon reads its mode: at most 07777.
func parseMode(text *string) (*fs.FileMode, error) {
	if text == nil {
		return nil, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(*text, "0o"), 8, 12)
	if err != nil {
		return nil, usage("--mode: %q is not an octal number of at most 7777", *text)
	}
	mode := fs.FileMode(n & 0o777)
	for bit, special := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			mode |= special
		}
	}
	return &mode, nil
}

// copy makes the copy, either way.
func (j *copying) copy(ctx context.Context) error {
	j.data = copyData{Direction: "download", Local: j.local, Remote: vmPrefix + j.remote, Tar: j.tar}
	if j.upload {
		j.data.Direction = "upload"
		if err := j.up(ctx); err != nil {
			return err
		}
		j.warnOfOwner(ctx)
		return nil
	}
	return j.down(ctx)
}

// result says what was copied, but to an output that holds the copy itself.
func (j *copying) result() *result {
	res := &result{kind: "microvm.copy", data: j.data, warnings: j.warnings}
	if !j.upload && j.local == stdio {
		return res
	}
	from, to := j.data.Local, j.data.Remote
	if !j.upload {
		from, to = to, from
	}
	much := fmt.Sprintf("%d bytes", j.data.Bytes)
	if j.data.Bytes >= 1024 {
		much = fmt.Sprintf("%s (%s)", size(float64(j.data.Bytes)), much)
	}
	res.text = fmt.Sprintf("copied %s from %s to %s\n", much, escape(from), escape(to))
	res.dense = fmt.Sprintf("%s\t%d\t%s\t%s\t%d", j.data.Direction, j.data.Bytes, escape(j.data.Local), escape(j.data.Remote), j.data.Skipped)
	return res
}

// maxWarnings bounds the skipped entries that are named one by one.
const maxWarnings = 20

// skip counts an entry that is not copied, and says why.
func (j *copying) skip(name, why string) {
	j.data.Skipped++
	switch {
	case j.data.Skipped <= maxWarnings:
		j.warnings = append(j.warnings, fmt.Sprintf("skipped %q: %s", name, why))
	case j.data.Skipped == maxWarnings+1:
		j.warnings = append(j.warnings, "")
		fallthrough
	default:
		j.warnings[maxWarnings] = fmt.Sprintf("skipped %d more", j.data.Skipped-maxWarnings)
	}
}

// forFolders refuses flags that a folder cannot have, and forFiles those that a
// file cannot have: which of the two is copied shows only after the parse.
func (j *copying) forFolders(name string) error {
	if j.mode != nil {
		return usage("--mode is for files, and %q is a folder, which keeps its modes", name)
	}
	return nil
}

func (j *copying) forFiles(name string) error {
	if j.patterns {
		return usage("--exclude is for folders, and %q is a file", name)
	}
	return nil
}

// localError is a failure on this side.
func localError(what string, err error) error {
	if client.KindOf(err) != client.KindUnexpected {
		return err // it came through the session
	}
	var path *fs.PathError
	if errors.As(err, &path) && strings.Contains(what, strconv.Quote(path.Path)) {
		err = path.Err // the path is named once
	}
	return &client.Error{Kind: client.KindPrecondition, Message: what, Err: err}
}

// status is the status by which the daemon refused, or 0.
func status(err error) int {
	var apiErr *client.APIError
	if errors.As(err, &apiErr) {
		return apiErr.Status
	}
	return 0
}

// input is this command's own input, which stops to be read when ctx ends.
func (a *app) input(ctx context.Context) (r io.Reader, stop func()) {
	if file, ok := a.stdin.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return file, func() {}
		}
	}
	return inputUntil(ctx, a.stdin)
}
