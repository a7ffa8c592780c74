package agentd_test

import (
	"archive/tar"
	"os"
	"slices"
	"strings"
	"testing"

	"microvms/agentd"
	"microvms/agentd/api"
	"microvms/agentd/trace"
)

// TestFilePoints checks which transitions the file routes report, in order.
func TestFilePoints(t *testing.T) {
	t.Attr("requirement", "FS-15")
	rec := &recorder{}
	d := booted(t, func(c *agentd.Config) { c.Recorder = rec; c.Limits.MaxTarMembers = 3 })
	dir := t.TempDir()
	rec.take()
	// of drops the serial number and what every bearer route reports.
	of := func(lines []string) (got []string) {
		for _, line := range lines {
			if _, what, _ := strings.Cut(line, " "); !strings.HasPrefix(what, "Control") {
				got = append(got, what)
			}
		}
		return got
	}
	two := tarOf(t, tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o700}, tar.Header{Name: "d/f", Mode: 0o600, Uname: "x"})
	four := tarOf(t, tar.Header{Name: "a"}, tar.Header{Name: "b"}, tar.Header{Name: "c"}, tar.Header{Name: "d"})
	for _, c := range []struct {
		name string
		do   func() reply
		want []string
	}{
		{"write", func() reply { return d.call("PUT", fileURL(api.PathFile, dir+"/f"), "x") },
			[]string{"FileReserve enough=true", "FileOpen opened=true", "FileWrite"}},
		{"read", func() reply { return d.get(fileURL(api.PathFile, dir+"/f")) }, []string{"FileOpen opened=true"}},
		{"read nothing", func() reply { return d.get(fileURL(api.PathFile, dir+"/none")) }, []string{"FileOpen opened=false"}},
		{"write below a file", func() reply { return d.call("PUT", fileURL(api.PathFile, dir+"/f/g"), "x") },
			[]string{"FileReserve enough=true", "FileOpen opened=false"}},
		{"extract", func() reply { return d.putTar(dir+"/t", two) },
			[]string{"ArchiveSpool", "ArchiveJudge members=2", "ArchiveReserve enough=true", "ArchiveRoot", "ArchiveResolve entered=true", "ArchivePlace", "ArchiveMember",
				"ArchivePlace", "ArchiveMember", "ArchiveMode applied=true"}},
		{"refused by the judge", func() reply { return d.putTar(dir+"/t", four) }, []string{"ArchiveSpool"}},
		{"pack", func() reply { return d.get(fileURL(api.PathTar, dir+"/t")) }, []string{"ArchiveWalk", "ArchiveWalk", "ArchiveWalk"}},
	} {
		c.do()
		if got := of(rec.take()); !slices.Equal(got, c.want) {
			t.Errorf("%s: recorded %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTarRefusals meets each status of an upload and of a download.
func TestTarRefusals(t *testing.T) {
	for _, id := range []string{"FS-16", "FS-25", "FS-26", "FS-28", "FS-10"} {
		t.Attr("requirement", id)
	}
	d := booted(t, func(c *agentd.Config) { c.Limits.MaxTarMembers = 2; c.Limits.MaxTarBytes = 10 })
	dir := t.TempDir()
	for _, c := range []struct {
		name   string
		body   []byte
		status int
		says   string
	}{
		{"leaves", tarOf(t, tar.Header{Name: "../x"}), 400, "../x"},
		{"absolute link", tarOf(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), 400, "absolute link target"},
		{"members", tarOf(t, tar.Header{Name: "a"}, tar.Header{Name: "b"}, tar.Header{Name: "c"}), 413, "max_tar_members"},
		{"bytes", tarOf(t, tar.Header{Name: "a", Uname: "12345678901"}), 413, "max_tar_bytes"},
		{"garbage", []byte(strings.Repeat("garbage ", 100)), 500, api.ArchiveRefused + "header checksum"},
		{"nothing", nil, 500, api.ArchiveRefused + "archive is cut short"},
		{"short gzip", []byte("\x1f\x8b\x08"), 500, api.ArchiveRefused + "not a tar"},
		{"no source", tarOf(t, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "none"}), 500, "no such file"},
		{"at the caps", tarOf(t, tar.Header{Name: "a", Uname: "12345"}, tar.Header{Name: "b", Uname: "67890"}), 204, ""},
	} {
		r := d.putTar(dir+"/up", c.body)
		if r.status != c.status || !strings.Contains(r.body, c.says) {
			t.Errorf("%s: %v, want %d with %q", c.name, r, c.status, c.says)
		}
	}
	if r := d.get(fileURL(api.PathTar, dir+"/up")); r.status != 413 { // the folder itself is a member
		t.Errorf("a tree above the cap: %v", r)
	}
	full := booted(t, func(c *agentd.Config) { c.Limits.DiskReserveBytes = 1 << 60 })
	for name, r := range map[string]reply{
		"file": full.call("PUT", fileURL(api.PathFile, dir+"/none/f"), "x"), "archive": full.putTar(dir+"/none", nil), "download": full.get(fileURL(api.PathTar, dir+"/up")),
	} {
		if r.status != 507 || !strings.Contains(r.body, "1152921504606846976") || !strings.Contains(r.body, "available") {
			t.Errorf("%s on a full disk: %v", name, r)
		}
	}
	if _, err := os.Lstat(dir + "/none"); err == nil {
		t.Error("a folder was made on a full disk")
	}
}

// TestGateHoldsAnArchive plants a link while an upload is held before it
// resolves a folder: the member is refused and nothing goes through the link.
func TestGateHoldsAnArchive(t *testing.T) {
	t.Attr("requirement", "FS-17")
	gate := &holdFirst{at: trace.ArchiveResolve, held: make(chan struct{}), let: make(chan struct{})}
	d := booted(t, func(c *agentd.Config) { c.Gate = gate })
	dir, outside := t.TempDir(), t.TempDir()
	answer := make(chan reply, 1)
	body := tarOf(t, tar.Header{Name: "d/f", Mode: 0o644, Uname: "x"})
	go func() { answer <- d.putTar(dir, body) }()
	<-gate.held
	if err := os.Symlink(outside, dir+"/d"); err != nil {
		t.Error(err)
	}
	close(gate.let)
	if r := <-answer; r.status != 400 || !strings.Contains(r.body, "d/f") || !strings.Contains(r.body, "symbolic link") {
		t.Errorf("%v, want a refusal that names the member", r)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("%v was written outside", entries)
	}
}
