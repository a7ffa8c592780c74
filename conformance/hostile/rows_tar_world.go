package hostile

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"microvms/agentd/api"
)

// oddNames is T17.
func oddNames() Row {
	all := []string{
		"new\nline", "\x1b[2J\x1b]0;title\x07", "\xff\xfe invalid", "cafe\u0301", "café", strings.Repeat("n", 255), "-rf", " spaces ", "back\\slash", "C:", "C:\\x", "~", "$(id)", "%00", "\u202egpj",
	}
	cases := []Case{{Name: "bytes kept exactly", Do: keptNames(all)}}
	cases = append(cases, trials(
		trial{name: "NUL by PAX", archive: archived(extended('x', "path=a\x00b"), regular("x", "")), status: 500, says: "NUL"},
		trial{name: "NUL in the field", archive: archived(regular("a\x00b", "")), status: 500, says: "NUL"},
		trial{name: "256 bytes", archive: named(strings.Repeat("n", 256), regular("x", "")) + tarEnd, status: 400, says: "255"},
		trial{name: "escape in a refused name", archive: named("../\x1b[2J\nx\xff", regular("x", "")) + tarEnd, status: 400, says: `../\x1b[2J\nx\xff`},
	)...)
	return Row{
		ID: "T17", Name: "names with control characters, invalid UTF-8, NUL, odd forms", Expect: "bytes kept exactly, or refused by name; an answer is printable",
		Requirements: []string{"FS-13", "FS-14", "FS-21", "FS-16"}, Cases: cases,
	}
}

// keptNames uploads members of those names and reads them back with their
// content, from a download and each by itself.
func keptNames(names []string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) (err error) {
		s, err := p.newSite(ctx, "")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.remove(ctx)) }()
		var a strings.Builder
		for i, name := range names {
			a.WriteString(named(name, regular("x", fmt.Sprint(i))))
		}
		r, err := s.putTar(ctx, s.root(), a.String()+tarEnd)
		if err == nil {
			err = is(204).match(r)
		}
		if err != nil {
			return err
		}
		down, err := p.call(ctx, "GET", api.PathTar+"?path="+url.QueryEscape(s.root()), "")
		if err != nil {
			return err
		}
		var got []string
		for tr := tar.NewReader(strings.NewReader(string(down.body))); ; {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("the download (%d) cannot be read: %w", down.status, err)
			}
			got = append(got, h.Name)
		}
		want := append([]string{"./"}, slices.Sorted(slices.Values(names))...)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the download names %q, want %q", got, want)
		}
		for i, name := range names {
			r, err := p.call(ctx, "GET", api.PathFile+"?path="+url.QueryEscape(s.root()+"/"+name), "")
			if err != nil {
				return err
			}
			if r.status != 200 || string(r.body) != fmt.Sprint(i) {
				return fmt.Errorf("%q reads as %v", name, r)
			}
		}
		return s.intact(ctx)
	}
}

// fullDisk is T18.
func fullDisk() Row {
	return Row{
		ID: "T18", Name: "a disk at its reserve and 1 MiB, and 8 MiB to write; two uploads for the last space", Expect: "507 with both byte counts; both cannot pass; the refused leaves nothing",
		Requirements: []string{"FS-10", "FS-11", "FS-9"},
		Cases: []Case{
			{Name: "declared length", Do: onSmallDisk(tightFile(false))},
			{Name: "in chunks", Do: onSmallDisk(tightFile(true))},
			{Name: "archive", Do: onSmallDisk(tightTar)},
			{Name: "two uploads race", Do: onSmallDisk(raceForSpace)},
		},
	}
}

const mib = 1 << 20

// onSmallDisk plays a case on a filesystem that is filled until the reserve and
// the given rest are free.
func onSmallDisk(do func(ctx context.Context, s *site, reserve uint64) error) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) (err error) {
		if p.Knobs.SmallDisk == "" {
			return skipped("no small filesystem was named that a row may fill")
		}
		h, err := p.health(ctx)
		if err != nil {
			return err
		}
		if h.Disk == nil || h.Disk.ReserveBytes == 0 {
			return skipped("the daemon reports no disk reserve")
		}
		s, err := p.newSite(ctx, p.Knobs.SmallDisk)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.remove(ctx)) }()
		return do(ctx, s, h.Disk.ReserveBytes)
	}
}

// fill leaves the reserve and rest bytes free.
func (s *site) fill(ctx context.Context, reserve, rest uint64) error {
	_, err := s.sh(ctx, fmt.Sprintf(`free=$(( $(stat -f -c '%%a * %%S' .) )); head -c $(( free - %d )) /dev/zero > canary/sub/file`, reserve+rest))
	return err
}

func (s *site) filePath(name string) string {
	return api.PathFile + "?path=" + url.QueryEscape(s.root()+"/"+name)
}

// refusedFull holds an answer to what a full disk owes, and looks for leftovers.
func (s *site) refusedFull(ctx context.Context, r *reply, reserve uint64) error {
	err := is(507).match(r)
	if !strings.Contains(string(r.body), fmt.Sprint(reserve)) {
		err = errors.Join(err, fmt.Errorf("%v does not name the reserve of %d bytes", r, reserve))
	}
	left, lerr := s.names(ctx)
	if len(left) > 0 {
		lerr = errors.Join(lerr, fmt.Errorf("%q is left behind", left))
	}
	return errors.Join(err, lerr)
}

func tightFile(chunks bool) func(context.Context, *site, uint64) error {
	return func(ctx context.Context, s *site, reserve uint64) error {
		if err := s.fill(ctx, reserve, mib); err != nil {
			return err
		}
		c, err := s.p.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		body := strings.Repeat("x", 8*mib)
		request := head("PUT", s.filePath("f")) + bearer(s.p)
		if chunks {
			request += fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		} else {
			request += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
		}
		go func() { _, _ = io.WriteString(c, request) }() // refused early, so it may fail
		r, err := c.answer("PUT")
		if err != nil {
			return err
		}
		if err := s.refusedFull(ctx, r, reserve); err != nil {
			return err
		}
		return s.p.expect(ctx, "PUT", s.filePath("small"), strings.Repeat("x", 64<<10), is(204))
	}
}

func tightTar(ctx context.Context, s *site, reserve uint64) error {
	if err := s.fill(ctx, reserve, mib); err != nil {
		return err
	}
	r, err := s.putTar(ctx, s.root(), archived(regular("first", ""), regular("f", strings.Repeat("x", 8*mib))))
	if err != nil {
		return err
	}
	return s.refusedFull(ctx, r, reserve)
}

// raceForSpace begins one upload and, while the daemon waits for its rest, sends
// another: there is room for either and not for both.
func raceForSpace(ctx context.Context, s *site, reserve uint64) error {
	if err := s.fill(ctx, reserve, 8*mib); err != nil {
		return err
	}
	c, err := s.p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	body := strings.Repeat("x", 5*mib)
	fmt.Fprintf(c, "%s%sContent-Length: %d\r\n\r\n", head("PUT", s.filePath("first")), bearer(s.p), len(body))
	// The file is there: the first has its claim.
	if _, err := s.sh(ctx, "until test -e root/first; do :; done"); err != nil {
		return err
	}
	second, err := s.p.call(ctx, "PUT", s.filePath("second"), body)
	if err != nil {
		return err
	}
	if err := is(507).match(second); err != nil {
		return fmt.Errorf("the second of two: %w", err)
	}
	if _, err := io.WriteString(c, body); err != nil {
		return fmt.Errorf("cannot send the rest of the first: %w", err)
	}
	first, err := c.answer("PUT")
	if err != nil {
		return err
	}
	left, lerr := s.names(ctx)
	if lerr == nil && !slices.Equal(left, []string{"./first"}) {
		lerr = fmt.Errorf("%q is there, want the first alone", left)
	}
	return errors.Join(is(204).match(first), lerr)
}

// targets is T19.
func targets() Row {
	to := func(name, prepare, path string, status ...int) Case {
		return Case{Name: name, Do: func(ctx context.Context, p *probe) (err error) {
			if strings.Contains(path, "READONLY") && p.Knobs.ReadOnly == "" {
				return skipped("no read-only mount was named")
			}
			s, err := p.newSite(ctx, "")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.remove(ctx)) }()
			if _, err := s.sh(ctx, prepare); err != nil {
				return err
			}
			target := strings.NewReplacer("ROOT", s.root(), "READONLY", p.Knobs.ReadOnly).Replace(path)
			r, err := s.putTar(ctx, target, archived(regular("x", "1")))
			if err != nil {
				return err
			}
			return errors.Join(is(status...).match(r), s.intact(ctx))
		}}
	}
	return Row{
		ID: "T19", Name: "targets that are missing, files, links, magic links, /proc, read-only", Expect: "made when missing; through links where they lead to a folder; else an error",
		Requirements: []string{"FS-13"},
		Cases: []Case{
			to("missing", ":", "ROOT/not/there", 204),
			to("a file", "echo x > root/f", "ROOT/f", 400),
			to("below a file", "echo x > root/f", "ROOT/f/g", 400),
			to("a link to a folder", "mkdir root/d && ln -s d root/l", "ROOT/l", 204),
			to("a dangling link", "ln -s none root/l", "ROOT/l", 500),
			to("a loop", "ln -s l root/l", "ROOT/l", 400),
			to("relative", ":", "root", 400),
			to("empty", ":", "", 400),
			to("a descriptor of the daemon", ":", "/proc/self/fd/3", 400, 404, 500),
			to("the daemon's folder by a magic link", ":", "/proc/self/cwd", 400),
			to("/proc", ":", "/proc", 400, 500),
			to("a read-only mount", ":", "READONLY", 500),
			to("a missing folder on a read-only mount", ":", "READONLY/new", 500),
		},
	}
}
