package archive

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"microvms/agentd/internal/files"
	"microvms/agentd/trace"
)

// modeMask is what is kept of a member's mode: no setuid, no sticky bit, and
// nothing that lets others write.
const modeMask = 0o755

// Options are how an archive is extracted or packed.
type Options struct {
	Reserve  *files.Reserve
	Limits   Limits
	Openat2  Openat2        // nil: the kernel's
	Gate     trace.Gate     // nil: none
	Recorder trace.Recorder // nil: none
	Request  uint64         // in every point
}

func (o *Options) withDefaults() {
	if o.Openat2 == nil {
		o.Openat2 = unix.Openat2
	}
}

// pass parks before a transition while the gate is closed.
func (o *Options) pass(ctx context.Context, action trace.Action, member uint64) error {
	if o.Gate == nil {
		return ctx.Err()
	}
	return o.Gate.Pass(ctx, trace.Point{Action: action, Request: o.Request, Member: member})
}

func (o *Options) record(action trace.Action, member uint64, attrs ...trace.Attr) {
	if o.Recorder != nil {
		o.Recorder.Record(trace.Event{Point: trace.Point{Action: action, Request: o.Request, Member: member}, Attrs: attrs})
	}
}

// extraction is one archive on its way below one root.
type extraction struct {
	Options
	ctx    context.Context
	spool  io.ReaderAt
	size   int64
	scan   *Scanner
	tree   tree
	claim  *files.Claim
	member uint64 // in its turn
	modes  []deferred
	buf    []byte
}

// deferred is the mode that a folder member gets at the end. Only its place in
// the archive is kept: a hundred thousand names would not fit the daemon.
type deferred struct {
	offset int64
	index  uint64
	depth  int32
	mode   uint32
}

// Extract judges an archive of size bytes and places its members below root,
// which must be absolute and is made when it is missing. Errors are *Refusal,
// *files.FullError, or those of ctx. Members that were placed before an error
// stay; the one that was being written does not.
func Extract(ctx context.Context, spool io.ReaderAt, size int64, root string, o Options) error {
	o.withDefaults()
	if !filepath.IsAbs(root) {
		return &Refusal{Kind: BadRoot, Reason: "path must be absolute"}
	}
	if err := o.pass(ctx, trace.ArchiveJudge, 0); err != nil {
		return err
	}
	sum, err := Judge(spool, size, o.Limits)
	if err != nil {
		return ofBytes(err)
	}
	o.record(trace.ArchiveJudge, 0, trace.Attr{Key: "members", Value: int64(sum.Members)})
	e := &extraction{Options: o, ctx: ctx, spool: spool, size: size, scan: NewScanner(spool, size), buf: make([]byte, 256<<10)}
	if err := e.reserve(root, sum); err != nil {
		return err
	}
	defer e.claim.Release()
	if err := e.pass(ctx, trace.ArchiveRoot, 0); err != nil {
		return err
	}
	fd, err := openRoot(root, true, o.Openat2)
	if err != nil {
		return err
	}
	e.record(trace.ArchiveRoot, 0)
	e.tree = tree{root: fd, openat2: o.Openat2, resolve: e.resolve, resolved: e.resolved}
	defer e.tree.close()
	if err := e.members(); err != nil {
		return err
	}
	return e.applyModes()
}

// reserve claims the space that the archive declares, before anything is made.
func (e *extraction) reserve(root string, sum Sum) (err error) {
	if err := e.pass(e.ctx, trace.ArchiveReserve, 0); err != nil {
		return err
	}
	e.claim, err = e.Reserve.Claim(root, uint64(sum.Bytes))
	e.record(trace.ArchiveReserve, 0, trace.Attr{Key: "enough", Value: err == nil})
	return err
}

// resolve is called before each component that is not held.
func (e *extraction) resolve() error { return e.pass(e.ctx, trace.ArchiveResolve, e.member) }

func (e *extraction) resolved(entered bool) {
	e.record(trace.ArchiveResolve, e.member, trace.Attr{Key: "entered", Value: entered})
}

// members places one member after another.
//
// FS-13: in the archive's order, because a later member may replace or link an
// earlier one.
func (e *extraction) members() error {
	for {
		m, err := e.scan.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		e.member = m.Index
		if err := e.pass(e.ctx, trace.ArchiveMember, m.Index); err != nil {
			return err
		}
		if err := e.place(m); err != nil {
			return about(m.Name, err)
		}
		e.record(trace.ArchiveMember, m.Index)
	}
}

// place places one member. The rules are held again: Judge has seen the same
// bytes, but the spool is a file, and root in the guest can reach any file.
func (e *extraction) place(m *Member) error {
	if bad := judgeMember(m); bad != nil {
		return bad
	}
	parts, _ := components(m.Name) // judged just now
	if len(parts) == 0 {
		return nil // the root itself, and a folder: it is there
	}
	at, err := e.tree.folder(parts[:len(parts)-1], true)
	if err != nil {
		return err
	}
	if err := e.pass(e.ctx, trace.ArchivePlace, m.Index); err != nil {
		return err
	}
	defer e.record(trace.ArchivePlace, m.Index)
	last := parts[len(parts)-1]
	switch m.Type {
	case typeDir:
		return e.placeFolder(at, parts, m)
	case typeSymlink:
		return replace(at, last, func() error { return unix.Symlinkat(m.Link, at, last) })
	case typeLink:
		return e.placeLink(parts, m)
	}
	return e.placeFile(at, last, m)
}

// applyModes gives folders their modes: last, so that a folder without write
// permission can be filled, and deepest first, so that one without search
// permission can still be reached into. A failure is not the upload's: the
// members are there.
func (e *extraction) applyModes() error {
	slices.SortStableFunc(e.modes, func(a, b deferred) int { return cmp.Compare(b.depth, a.depth) })
	for _, d := range e.modes {
		if err := e.pass(e.ctx, trace.ArchiveMode, d.index); err != nil {
			return err
		}
		err := e.applyMode(d)
		e.record(trace.ArchiveMode, d.index, trace.Attr{Key: "applied", Value: err == nil})
	}
	return nil
}

func (e *extraction) applyMode(d deferred) error {
	m, err := e.scan.at(d.offset).Next()
	if err != nil {
		return err
	}
	parts, bad := components(m.Name)
	if bad != nil || len(parts) == 0 {
		return bad
	}
	e.member = d.index
	at, err := e.tree.folder(parts[:len(parts)-1], false)
	if err != nil {
		return err
	}
	fd, err := e.tree.open(at, parts[len(parts)-1], unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// FS-20: by handle, so that a link planted since does not get the mode.
	return unix.Fchmod(fd, d.mode)
}
