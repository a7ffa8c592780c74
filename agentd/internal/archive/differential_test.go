package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// pythonExtract extracts each archive that it reads the name of with the data
// filter of CPython's tarfile and says what came of it.
const pythonExtract = `
import json, os, sys, tarfile
if not hasattr(tarfile, "data_filter"):
    print(json.dumps({"error": "no data filter"})); sys.exit(0)
print(json.dumps({"error": ""}), flush=True)
for line in sys.stdin:
    archive, dest = line.rstrip("\n").split("\t")
    try:
        with tarfile.open(archive, "r:", errorlevel=1) as t:
            t.extractall(dest, filter="data")
        error = ""
    except Exception as e:
        error = type(e).__name__
    print(json.dumps({"error": error}), flush=True)
`

// python is a running pythonExtract.
type python struct {
	in  *bufio.Writer
	out *bufio.Scanner
}

// startPython skips the test where there is no python3 with a data filter.
func startPython(t *testing.T) *python {
	t.Helper()
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not there, so its tarfile cannot be compared with")
	}
	cmd := exec.Command(program, "-c", pythonExtract)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	p := &python{bufio.NewWriter(in), bufio.NewScanner(out)}
	if p.answer(t) != "" {
		t.Skip("python3 is older than tarfile's data filter")
	}
	return p
}

func (p *python) answer(t *testing.T) string {
	t.Helper()
	var a struct{ Error string }
	if !p.out.Scan() {
		t.Fatalf("python3 ended: %v", p.out.Err())
	}
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	return a.Error
}

// extract returns the name of the exception, empty for success.
func (p *python) extract(t *testing.T, archive, dest string) string {
	fmt.Fprintf(p.in, "%s\t%s\n", archive, dest)
	if err := p.in.Flush(); err != nil {
		t.Fatal(err)
	}
	return p.answer(t)
}

// generated is a random archive of a few names, so that members meet.
func generated(r *rand.Rand) (members []entry) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	name := func() string {
		parts := []string{pick("a", "b", "c")}
		for range r.IntN(3) {
			parts = append(parts, pick("a", "b", "c", "d"))
		}
		switch r.IntN(40) {
		case 0:
			parts = append(parts, "..", pick("a", "e"))
		case 1:
			parts = append([]string{".."}, parts...)
		case 2:
			parts = append([]string{""}, parts...)
		case 3:
			parts = append([]string{"."}, parts...)
		}
		return strings.Join(parts, "/")
	}
	target := func() string {
		return pick("a", "b", "./c", "../a", "../b/c", "..", "../..", "/etc", "none", "d/../e", "../../../x", ".")
	}
	modes := []int64{0o644, 0o755, 0o600, 0o777, 0o4755, 0o400, 0o000, 0o111}
	for range 1 + r.IntN(8) {
		e := file(name(), pick("", "content", strings.Repeat("x", 700)))
		e.mode = modes[r.IntN(len(modes))]
		switch n := r.IntN(20); {
		case n < 5:
			e = dir(name() + pick("", "/"))
		case n == 5:
			e = symlink(name(), target())
		case n == 6:
			source := name()
			if len(members) > 0 && r.IntN(4) > 0 {
				source = members[r.IntN(len(members))].name
			}
			e = hardlink(name(), source)
			for _, m := range members {
				if path.Clean(m.name) == path.Clean(source) {
					e.mode = m.mode // writers record the inode's; tarfile sets the link's
				}
			}
		case n == 9 && r.IntN(4) == 0:
			e.typ = "346Z"[r.IntN(4)]
			e.body = ""
		}
		members = append(members, e)
	}
	return members
}

// reasons are the differences that are known, each with why ours is as it is.
var reasons = map[string]string{
	"rooted":      "a rooted name is refused, not stripped: the stripped name is not what was meant",
	"through":     "no member goes through a link, not even one that stays inside: another process can move it meanwhile",
	"over link":   "an old link or hard link is removed, not written through",
	"dots":        "two dots are applied to the name; tarfile makes the folder that they leave",
	"hard link":   "a hard link needs a regular file as its source, now; tarfile copies a member of that name instead, or links a link",
	"conflict":    "a folder over a file, and a link over a folder or below a file, is refused; tarfile passes over it",
	"unknown":     "an unknown type is a file, as POSIX asks; tarfile refuses it",
	"link target": "a target is judged by its text; tarfile follows the links that are there",
	"root":        "a folder named like the root is left alone, and anything else of that name refused",
}

// explain says which known difference an archive holds.
func explain(members []entry) string {
	kinds := map[string]byte{}
	links := map[string]bool{} // names of one inode with others
	for _, m := range members {
		name := path.Clean(m.name)
		switch {
		case strings.HasPrefix(m.name, "/"):
			return "rooted"
		case m.typ == 'Z':
			return "unknown"
		case name == ".":
			return "root"
		case strings.Contains("/"+m.name+"/", "/../"):
			return "dots"
		}
		for up := path.Dir(name); up != "."; up = path.Dir(up) {
			if kinds[up] == '2' {
				return "through"
			}
			if kinds[up] == '0' {
				return "conflict"
			}
			kinds[up] = '5'
		}
		switch {
		case m.typ == '5' && kinds[name] == '0', m.typ == '2' && kinds[name] == '5':
			return "conflict"
		case kinds[name] == '2' || links[name]:
			return "over link"
		case m.typ == '1':
			source := path.Clean(m.link)
			if kinds[source] != '0' || source == name || strings.Contains("/"+m.link+"/", "/../") || strings.HasPrefix(m.link, "/") {
				return "hard link"
			}
			for up := path.Dir(source); up != "."; up = path.Dir(up) {
				if kinds[up] == '2' {
					return "hard link"
				}
			}
			links[name], links[source] = true, true
			kinds[name] = '0'
			continue
		case m.typ == '2':
			at := path.Dir(name)
			for _, part := range strings.Split(m.link, "/") {
				if at = path.Join(at, part); kinds[at] == '2' {
					return "link target"
				}
			}
		}
		kinds[name] = m.typ
	}
	return ""
}

// comparable drops what tarfile's data filter changes by design: it gives the
// owner read and write, takes x from all where the owner lacks it, and leaves
// the modes of folders to the umask.
func comparable(lines []string) string {
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		if at := strings.LastIndex(line, "("); at > 0 && strings.HasSuffix(line, ")") && strings.Contains(line, "=") {
			var mode int64
			_, _ = fmt.Sscanf(line[at:], "(%o)", &mode)
			if mode&0o100 == 0 {
				mode &^= 0o111
			}
			line = fmt.Sprintf("%s(%o)", line[:at], mode|0o600)
		}
		out = append(out, line)
	}
	return strings.Join(out, " ")
}

// TestDifferentialWithTarfile extracts generated archives with CPython's data
// filter too: same verdict and same tree, or a difference that is known, named
// and reasoned. Plain archives are accepted by both.
func TestDifferentialWithTarfile(t *testing.T) {
	t.Attr("requirement", "FS-13")
	t.Attr("requirement", "FS-16")
	t.Attr("requirement", "FS-23")
	py := startPython(t)
	agreed, refused, known := 0, 0, map[string]int{}
	for n := range uint64(320) {
		members := generated(rand.New(rand.NewPCG(11, n)))
		p := newPlace(t)
		archive := whole(members...)
		theirs := filepath.Join(p.base, "root", "theirs")
		file := filepath.Join(p.base, "root", "a.tar")
		if err := os.WriteFile(file, archive, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(theirs, 0o755); err != nil {
			t.Fatal(err)
		}
		ours := &place{t: t, base: p.base, dir: filepath.Join(p.dir, "ours")}
		err := ours.extract(archive)
		exception := py.extract(t, file, theirs)
		p.intact()
		why := explain(members)
		switch compare(err, exception, tryList(t, ours.dir), tryList(t, theirs), why) {
		case "agreed":
			agreed++
		case "refused":
			refused++
		case "different":
			t.Errorf("case %d: ours %v, theirs %q\nours   %s\ntheirs %s\nmembers %s", n, err, exception,
				tryList(t, ours.dir), tryList(t, theirs), describe(members))
		default:
			known[why]++
		}
	}
	for why, n := range known {
		if reasons[why] == "" {
			t.Errorf("%d differences %q have no reason", n, why)
		}
	}
	t.Logf("both accept the same tree: %d, both refuse: %d, known differences: %v", agreed, refused, known)
	if agreed < 80 || refused < 50 {
		t.Errorf("%d agreed and %d were refused by both: too few to say anything", agreed, refused)
	}
}

// compare is the verdict on one archive. Trees count only where both accept it.
func compare(err error, exception, ours, theirs, why string) string {
	switch {
	case err != nil && exception != "":
		return "refused"
	case err == nil && exception == "" && ours == theirs:
		return "agreed"
	case why != "":
		return "known"
	}
	return "different"
}

// TestCompareTurnsRed holds the verdict itself to cases by hand.
func TestCompareTurnsRed(t *testing.T) {
	bad := fmt.Errorf("refused")
	for _, c := range []struct {
		err                          error
		exception, ours, theirs, why string
		want                         string
	}{
		{nil, "", "a", "a", "", "agreed"}, {nil, "", "a", "b", "", "different"}, {bad, "", "", "a", "", "different"}, {nil, "E", "a", "", "", "different"},
		{bad, "E", "x", "y", "", "refused"}, {nil, "", "a", "b", "rooted", "known"},
	} {
		if got := compare(c.err, c.exception, c.ours, c.theirs, c.why); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	for _, c := range []struct {
		members []entry
		want    string
	}{
		{[]entry{file("a", ""), dir("d"), symlink("d/l", "../a")}, ""}, {[]entry{file("/a", "")}, "rooted"}, {[]entry{dir("d"), symlink("l", "d"), file("l/x", "")}, "through"},
		{[]entry{file("a", ""), hardlink("h", "a")}, ""}, {[]entry{hardlink("h", "a")}, "hard link"},
	} {
		if got := explain(c.members); got != c.want {
			t.Errorf("%s is explained by %q, want %q", describe(c.members), got, c.want)
		}
	}
}

func tryList(t *testing.T, dir string) string {
	if _, err := os.Stat(dir); err != nil {
		return "nothing"
	}
	return comparable(listing(t, dir))
}

func describe(members []entry) string {
	var b bytes.Buffer
	for _, m := range members {
		fmt.Fprintf(&b, "%c %q", m.typ, m.name)
		if m.link != "" {
			fmt.Fprintf(&b, "->%q", m.link)
		}
		b.WriteString("; ")
	}
	return b.String()
}
