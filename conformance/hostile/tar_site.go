package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"microvms/agentd/api"
)

// site is a folder in the guest with a root for archives and a canary beside it.
type site struct {
	p    *probe
	base string
}

// newSite makes one. Remove it.
func (p *probe) newSite(ctx context.Context, below string) (*site, error) {
	if below == "" {
		below = "/tmp"
	}
	s := &site{p, below + "/hostile-" + p.id()}
	_, err := s.sh(ctx, "mkdir -p canary/sub root && echo alive > canary/file && echo alive > canary/sub/file && chmod 600 canary/file")
	return s, err
}

// sh runs a script as the daemon runs commands, in the site, and returns what it
// wrote. It fails unless the script ends with status 0.
func (s *site) sh(ctx context.Context, line string) (string, error) {
	id := s.p.id()
	text := fmt.Sprintf("mkdir -p '%s' && cd '%s' || exit 9\n%s", s.base, s.base, line)
	if err := s.p.start(ctx, id, script(text)); err != nil {
		return "", err
	}
	t, err := s.p.follow(ctx, id, 0)
	if err != nil {
		return "", err
	}
	if t.exit.ExitCode == nil || *t.exit.ExitCode != 0 {
		return string(t.out), fmt.Errorf("%.200q ended with %+v and wrote %.200q", line, t.exit, t.out)
	}
	return string(t.out), s.p.drop(ctx, id)
}

// root is where archives go.
func (s *site) root() string { return s.base + "/root" }

// remove removes the site.
func (s *site) remove(ctx context.Context) error {
	_, err := s.sh(context.WithoutCancel(ctx), "cd / && rm -rf '"+s.base+"'")
	return err
}

// canaryFiles is what newSite made beside the root, by find and cat.
const canaryFiles = ".\n./canary\n./canary/file\n./canary/sub\n./canary/sub/file\n600\nalive\nalive\n"

// intact fails when something beside the root was written, removed or changed.
func (s *site) intact(ctx context.Context) error {
	got, err := s.sh(ctx, "find . -path ./root -prune -o -print | sort; stat -c %a canary/file; cat canary/file canary/sub/file")
	if err == nil && got != canaryFiles {
		err = fmt.Errorf("beside the root is %q", got)
	}
	return err
}

// names lists what is below the root.
func (s *site) names(ctx context.Context) ([]string, error) {
	got, err := s.sh(ctx, "cd root && find . -mindepth 1 | sort")
	return strings.Fields(got), err
}

// putTar uploads an archive.
func (s *site) putTar(ctx context.Context, to, archive string) (*reply, error) {
	return s.p.call(ctx, "PUT", api.PathTar+"?path="+url.QueryEscape(to), archive)
}

// trial is one archive with its verdict.
type trial struct {
	name    string
	archive string
	status  int
	says    string   // in the body
	left    []string // below the root, by find; nil: nothing
	check   string   // a script that must succeed afterwards
}

// trials are cases of archives. Each is played in a site of its own, and the
// canary is looked after each.
func trials(all ...trial) (cases []Case) {
	for _, t := range all {
		cases = append(cases, Case{Name: t.name, Do: func(ctx context.Context, p *probe) (err error) {
			s, err := p.newSite(ctx, "")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.remove(ctx)) }()
			return t.play(ctx, s)
		}})
	}
	return cases
}

func (t trial) play(ctx context.Context, s *site) error {
	r, err := s.putTar(ctx, s.root(), t.archive)
	if err != nil {
		return err
	}
	err = is(t.status).match(r)
	if !strings.Contains(string(r.body), t.says) {
		err = errors.Join(err, fmt.Errorf("%v does not say %q", r, t.says))
	}
	if i := slices.IndexFunc(r.body, func(c byte) bool { return (c < ' ' && c != '\n') || c > '~' }); i >= 0 {
		err = errors.Join(err, fmt.Errorf("%v has a raw byte 0x%02x", r, r.body[i]))
	}
	left, lerr := s.names(ctx)
	if lerr == nil && t.left != nil && t.left[0] == "*" {
		left = t.left // whatever is there
	}
	if lerr == nil && !slices.Equal(left, t.left) {
		lerr = fmt.Errorf("below the root is %.300q, want %.300q", left, t.left)
	}
	err = errors.Join(err, lerr, s.intact(ctx))
	if t.check != "" {
		_, cerr := s.sh(ctx, t.check)
		err = errors.Join(err, cerr)
	}
	return err
}
