package hostile

import (
	"strings"
)

// memberNames is T1.
func memberNames() Row {
	var all []trial
	for _, name := range []string{"../x", "a/../../x", "/etc/hostile-x", "//x", "./../x", "a/.."} {
		all = append(all, trial{name: name, archive: archived(regular("first", "1"), regular(name, "x")), status: 400, says: name,
			check: "test ! -e /etc/hostile-x && test ! -e /x"})
	}
	all = append(all,
		trial{name: "folder that leaves", archive: archived(folder("../d/")), status: 400, says: "../d/"},
		trial{name: "by a PAX path", archive: named("../x", regular("x", "")) + tarEnd, status: 400, says: "../x"},
		trial{name: "by a GNU long name", archive: archived(member{typ: 'L', body: "../x\x00"}, regular("x", "")), status: 400, says: "../x"},
		trial{name: "dots that stay", archive: archived(regular("a/../b", "x")), status: 204, left: []string{"./b"}},
	)
	return Row{
		ID: "T1", Name: "members that are rooted, leave the root or name it", Expect: "400 with the member's name; nothing is placed, not even the members before it",
		Requirements: []string{"FS-15", "FS-16"}, Cases: trials(all...),
	}
}

// linkThenThrough is T2.
func linkThenThrough() Row {
	return Row{
		ID: "T2", Name: "a symbolic link, then a member through it", Expect: "400; a link within the root may be made, no member goes through it",
		Requirements: []string{"FS-17", "FS-23"},
		Cases: trials(
			trial{name: "absolute", archive: archived(linked("d", "/etc"), regular("d/hostile-x", "x")), status: 400, says: "absolute link target", check: "test ! -e /etc/hostile-x"},
			trial{name: "to the canary", archive: archived(linked("d", "../canary"), regular("d/x", "x")), status: 400, says: `"d"`},
			trial{name: "within the root", archive: archived(folder("e"), linked("d", "e"), regular("d/x", "x")), status: 400, says: "d/x", left: []string{"./d", "./e"}},
			trial{name: "a level shallower than it looks", archive: archived(linked("V/a/..", "."), linked("V/a/a/..", "../W/escape")), status: 400, left: []string{"./V"}},
			trial{name: "chain of links", archive: archived(linked("a", "b"), linked("b", "c"), linked("c", "."), regular("a/b/c/x", "")), status: 400, left: []string{"./a", "./b", "./c"}},
			trial{name: "hard link to a link", archive: archived(folder("a"), linked("a/l", "../x"), member{name: "h", typ: '1', link: "a/l"}), status: 400, left: []string{"./a", "./a/l"}},
			trial{name: "hard link that leaves", archive: archived(member{name: "h", typ: '1', link: "../canary/file"}), status: 400, says: `"h"`},
			trial{name: "absolute hard link", archive: archived(member{name: "h", typ: '1', link: "/etc/passwd"}), status: 400, says: "absolute link target"},
			trial{name: "over a link", archive: archived(linked("l", "t"), regular("l", "new")), status: 204, left: []string{"./l"}, check: "test -f root/l && test ! -L root/l"},
		),
	}
}

// longTargets is T4.
func longTargets() Row {
	target := func(n int) string { return strings.Repeat("x/../", n/5) + strings.Repeat("y", n%5) }
	long := func(n int) string {
		return extended('x', "linkpath="+target(n)).bytes() + linked("l", "x").bytes() + tarEnd
	}
	deep := strings.Repeat("sixteen-bytes--/", 300)
	return Row{
		ID: "T4", Name: "link targets of 4095, 4096 and 70000 bytes; 300 nested folders", Expect: "stored or refused, never followed",
		Requirements: []string{"FS-17", "FS-23"},
		Cases: trials(
			trial{name: "4095 bytes", archive: long(4095), status: 204, left: []string{"./l"}},
			trial{name: "4096 bytes", archive: long(4096), status: 400, says: "4095"},
			trial{name: "70000 bytes", archive: long(70000), status: 400, says: "4095"},
			trial{name: "300 nested folders", archive: named(deep+"f", regular("f", "x")) + tarEnd, status: 204, left: []string{"*"}},
			// CVE-2025-4517: a path beyond PATH_MAX made realpath stop short, and a
			// link behind it was then taken to stay inside.
			trial{name: "link out at the end of 300 nested folders", archive: archived(extended('x', "path="+deep+"l", "linkpath="+strings.Repeat("../", 302)+"canary"), linked("l", "x")), status: 400, says: "leaves"},
			trial{name: "through a link at the end of 300 nested folders",
				archive: named(deep+"l", member{name: "l", typ: '2', link: "."}) + named(deep+"l/x", regular("x", "")) + tarEnd, status: 400, left: []string{"*"}},
		),
	}
}

// memberTypes is T6.
func memberTypes() Row {
	special := func(name string, typ byte) trial {
		return trial{name: name, archive: archived(regular("first", ""), member{name: "n", typ: typ}), status: 400, says: "type '" + string(typ) + "'"}
	}
	return Row{
		ID: "T6", Name: "devices, FIFOs, extended headers as files, unknown types",
		Expect: "devices, FIFOs and types with data that cannot be understood: 400 with the type; other unknown types are files", Requirements: []string{"FS-24", "FS-21"},
		Cases: trials(
			special("character device", '3'), special("block device", '4'), special("FIFO", '6'),
			special("sparse", 'S'), special("several volumes", 'M'), special("Solaris header", 'X'),
			trial{name: "sparse by PAX", archive: archived(extended('x', "GNU.sparse.major=1", "GNU.sparse.minor=0"), regular("n", "")), status: 400, says: "sparse"},
			trial{name: "x header with a file's data", archive: archived(member{name: "n", typ: 'x', body: "plain text"}), status: 500, says: "PAX"},
			trial{name: "g header with a file's data", archive: archived(member{name: "n", typ: 'g', body: "plain text"}), status: 500, says: "PAX"},
			trial{name: "unknown type", archive: archived(member{name: "n", typ: 'Z', body: "z"}), status: 204, left: []string{"./n"}, check: "test -f root/n && grep -q z root/n"},
			trial{name: "link with data", archive: archived(member{name: "n", typ: '2', link: "m", body: "data"}), status: 500, says: "data"},
		),
	}
}

// memberModes is T7.
func memberModes() Row {
	mode := func(m member, bits int64) member { m.mode = bits; return m }
	return Row{
		ID: "T7", Name: "setuid, setgid and sticky bits, capabilities, foreign owners", Expect: "placed without them, as the daemon's own",
		Requirements: []string{"FS-20"},
		Cases: trials(
			trial{name: "bits", archive: archived(mode(folder("d"), 0o6777), mode(regular("d/f", "x"), 0o6777), mode(regular("g", ""), 0o1622)), status: 204,
				left: []string{"./d", "./d/f", "./g"}, check: `test "$(stat -c %a root/d root/d/f root/g | tr '\n' ' ')" = "755 755 600 "`},
			trial{name: "capability attribute", archive: archived(extended('x', "SCHILY.xattr.security.capability=\x01\x00\x00\x02", "uid=4294967295", "gid=4294967295"), regular("f", "")), status: 204,
				left: []string{"./f"}, check: `test "$(stat -c %u:%g root/f)" = "$(id -u):$(id -g)"`},
			trial{name: "owner in base 256", archive: archived(member{name: "f", typ: '0', mode: 0o644, edit: func(b []byte) { copy(b[108:116], "\x80\x00\x00\x00\xff\xff\xff\xff") }}), status: 204,
				left: []string{"./f"}, check: `test "$(stat -c %u root/f)" = "$(id -u)"`},
			trial{name: "folder without permissions, filled", archive: archived(mode(folder("d"), 0), regular("d/f", "x")), status: 204,
				left: []string{"./d", "./d/f"}, check: `test "$(stat -c %a root/d)" = 0`},
		),
	}
}

// sameNames is T8.
func sameNames() Row {
	return Row{
		ID: "T8", Name: "one name several times, as file, folder and link", Expect: "the last of two files stays; a folder and another type conflict; no link is written through",
		Requirements: []string{"FS-19", "FS-17"},
		Cases: trials(
			trial{name: "file twice", archive: archived(regular("f", "1"), regular("f", "2")), status: 204, left: []string{"./f"}, check: "grep -q 2 root/f"},
			trial{name: "file, then folder", archive: archived(regular("f", "1"), folder("f")), status: 500, says: `"f"`, left: []string{"./f"}, check: "test -f root/f"},
			trial{name: "file, then a member in it", archive: archived(regular("f", "1"), regular("f/g", "2")), status: 500, says: `"f/g"`, left: []string{"./f"}},
			trial{name: "folder, then file", archive: archived(folder("f"), regular("f", "2")), status: 500, says: "folder is in the way", left: []string{"./f"}, check: "test -d root/f"},
			trial{name: "folder, then link, then a member in it", archive: archived(folder("f"), linked("f", "g"), regular("f/x", "")), status: 500, says: "folder is in the way", left: []string{"./f"}},
			trial{name: "folder twice", archive: archived(folder("f"), regular("f/x", ""), folder("f/")), status: 204, left: []string{"./f", "./f/x"}},
			trial{name: "file over a hard link", archive: archived(regular("a", "1"), member{name: "b", typ: '1', link: "a"}, regular("b", "2")), status: 204, left: []string{"./a", "./b"},
				check: "grep -q 1 root/a && grep -q 2 root/b"},
		),
	}
}
