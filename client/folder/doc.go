// Package folder moves a local folder to and from an uncompressed tar, the form
// in which the daemon's tar routes carry folders (wire facts, sections 11.4 and
// 11.5). The archive of a download comes from the VM and is hostile until proven
// otherwise: [Unpack] never writes, links or sets a mode outside of its folder,
// never through a symbolic link, and makes no entry that leads out of it.
//
// Names in archives, and in what this package reports, have forward slashes and
// are relative to the folder.
package folder

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// Excludes are patterns of what is left out. The zero value leaves out nothing.
type Excludes struct{ patterns []pattern }

type pattern struct {
	text     string
	anywhere bool // no slash in it: it is matched with the last name only
	folders  bool // it ended in a slash: it matches folders only
}

// ParseExcludes reads patterns as path.Match has them. One without a slash
// matches an entry of that name at any depth; one with a slash matches the path
// from the folder on; a slash at its end makes it match folders only. With a
// folder goes everything in it.
func ParseExcludes(texts []string) (Excludes, error) {
	var e Excludes
	for _, text := range texts {
		p := pattern{text: strings.TrimSuffix(strings.TrimPrefix(text, "./"), "/"), folders: strings.HasSuffix(text, "/")}
		rooted := strings.HasPrefix(p.text, "/")
		p.text = strings.TrimPrefix(p.text, "/")
		if p.text == "" {
			return Excludes{}, fmt.Errorf("pattern %q names nothing", text)
		}
		if _, err := path.Match(p.text, ""); err != nil {
			return Excludes{}, fmt.Errorf("pattern %q: a bracket is not closed, or a backslash stands at the end", text)
		}
		p.anywhere = !rooted && !strings.Contains(p.text, "/")
		e.patterns = append(e.patterns, p)
	}
	return e, nil
}

// Match says whether an entry, or a folder above it, is left out.
func (e Excludes) Match(name string, isFolder bool) bool {
	for at, r := range name + "/" {
		if r == '/' && e.matchOne(name[:at], isFolder || at < len(name)) {
			return true
		}
	}
	return false
}

func (e Excludes) matchOne(name string, isFolder bool) bool {
	for _, p := range e.patterns {
		if p.folders && !isFolder {
			continue
		}
		subject := name
		if p.anywhere {
			subject = path.Base(name)
		}
		if ok, _ := path.Match(p.text, subject); ok {
			return true
		}
	}
	return false
}

// leavesFolder says whether a link in the folder leads out of it, by its text
// alone. One that leads to the folder itself does not.
func leavesFolder(name, target string) bool {
	return target == "" || path.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target))
}
