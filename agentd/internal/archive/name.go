package archive

import "strings"

// Bounds of the Linux kernel on names and link targets.
const (
	maxComponent = 255
	maxTarget    = 4095
)

// components applies the lexical rule to a member's name: it is split at
// slashes, empty and single-dot components are dropped, two dots take the
// component before them away. No link is followed: a name means the same
// whatever the tree looks like. The result is empty for the root itself.
func components(name string) ([]string, *Refusal) {
	if strings.HasPrefix(name, "/") {
		// FS-16: refused, never stripped, because a stripped name is not the one
		// that the archive's author meant.
		return nil, &Refusal{Kind: Unsafe, Reason: "rooted path"}
	}
	return walk(nil, name, "path leaves the root")
}

// walk applies the components of path, one by one, to base.
func walk(base []string, path, leaves string) ([]string, *Refusal) {
	parts := append(make([]string, 0, len(base)+strings.Count(path, "/")+1), base...)
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			if len(parts) == 0 {
				return nil, &Refusal{Kind: Unsafe, Reason: leaves}
			}
			parts = parts[:len(parts)-1]
		default:
			if len(part) > maxComponent {
				return nil, &Refusal{Kind: Unsafe, Reason: "a component is longer than 255 bytes"}
			}
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// judgeLink applies the lexical rule to a link's target, relative to base: the
// link's own folder for symbolic links, the root for hard links. It returns
// what the target names.
func judgeLink(base []string, target string) ([]string, *Refusal) {
	switch {
	case target == "":
		return nil, &Refusal{Kind: Unsafe, Reason: "link without a target"}
	case strings.HasPrefix(target, "/"):
		return nil, &Refusal{Kind: Unsafe, Reason: "absolute link target"}
	case len(target) > maxTarget:
		return nil, &Refusal{Kind: Unsafe, Reason: "link target is longer than 4095 bytes"}
	}
	return walk(base, target, "link target leaves the root")
}

// judgeMember applies the lexical rules to one member.
func judgeMember(m *Member) *Refusal {
	switch m.Type {
	case typeChar, typeBlock:
		return &Refusal{Kind: Unsafe, Reason: "device members are refused (type '" + string(m.Type) + "')"}
	case typeFIFO:
		return &Refusal{Kind: Unsafe, Reason: "fifo members are refused (type '6')"}
	}
	parts, bad := components(m.Name)
	if bad != nil {
		return bad
	}
	if len(parts) == 0 {
		if m.Type == typeDir {
			return nil
		}
		return &Refusal{Kind: Unsafe, Reason: "names the root, and is no folder"}
	}
	switch m.Type {
	case typeSymlink:
		_, bad = judgeLink(parts[:len(parts)-1], m.Link)
	case typeLink:
		_, bad = judgeLink(nil, m.Link)
	}
	return bad
}
