package archive

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"testing"
)

// TestOrdinaryTreesAreAccepted extracts generated trees of folders, files and
// links within them: each is accepted and comes out as it went in.
func TestOrdinaryTreesAreAccepted(t *testing.T) {
	t.Attr("requirement", "FS-13")
	for n := range uint64(256) {
		r := rand.New(rand.NewPCG(21, n))
		var members []entry
		var want []string
		folders := []string{""}
		for i := range 1 + r.IntN(12) {
			at := folders[r.IntN(len(folders))]
			name := fmt.Sprintf("%s%c%d", at, 'a'+r.IntN(3), i)
			switch r.IntN(4) {
			case 0:
				members = append(members, dir(name+"/"))
				want = append(want, name+"/")
				folders = append(folders, name+"/")
			case 1:
				to := strings.Repeat("../", r.IntN(strings.Count(at, "/")+1)) + "t"
				members = append(members, symlink(name, to))
				want = append(want, name+"->"+to)
			default:
				body := strings.Repeat("x", r.IntN(1500))
				members = append(members, file(name, body))
				want = append(want, name+"="+body+"(644)")
			}
		}
		sort.Strings(want)
		p := newPlace(t)
		if err := p.extract(whole(members...)); err != nil {
			t.Fatalf("case %d: %v: %s", n, err, describe(members))
		}
		if got := listing(t, p.dir); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("case %d: the tree is %q, want %q", n, got, want)
		}
	}
}

// TestNothingEscapes extracts generated archives of every kind over each other,
// torn ones among them. Whatever the verdict, the canary lives, and no link that
// was placed has a target that leaves the root by its text.
func TestNothingEscapes(t *testing.T) {
	t.Attr("requirement", "FS-16")
	t.Attr("requirement", "FS-17")
	t.Attr("requirement", "FS-23")
	accepted, refused := 0, 0
	for n := range uint64(300) {
		r := rand.New(rand.NewPCG(31, n))
		p := newPlace(t)
		for range 3 {
			archive := whole(generated(r)...)
			if r.IntN(4) == 0 {
				archive[r.IntN(len(archive))] ^= byte(1 << r.IntN(8))
			}
			if p.extract(archive) == nil {
				accepted++
			} else {
				refused++
			}
		}
		for _, line := range listing(t, p.dir) {
			name, to, isLink := strings.Cut(line, "->")
			if !isLink {
				continue
			}
			at := strings.Split(name, "/")
			if _, bad := judgeLink(at[:len(at)-1], to); bad != nil {
				t.Errorf("case %d: the link %s was placed", n, line)
			}
		}
	}
	if accepted < 100 || refused < 100 {
		t.Errorf("%d accepted and %d refused: too few to say anything", accepted, refused)
	}
	if _, err := os.Stat("/etc/none"); err == nil {
		t.Error("a link was followed out")
	}
}
