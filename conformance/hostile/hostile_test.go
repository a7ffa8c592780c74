package hostile

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"microvms/agentd/api"
	"microvms/conformance/process"
)

const token = "Tok-en.0123~hostile"

// binary is the daemon's command, built once for all tests.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// Rows mostly wait for the daemon's deadlines: they are played together
		// whatever the number of cores.
		if err := flag.Set("test.parallel", "16"); err != nil {
			panic(err)
		}
	}
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if binary, err = process.Build(context.Background(), dir, "microvms/agentd/cmd/agentd"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// logged is a log that is read while the daemon writes it.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.buf.Bytes())
}

// testKnobs ask for less than the facts do where more of the same would only
// take longer; conform asks for all of it.
var testKnobs = Knobs{Volume: 256 << 20, Turns: 1500}

// daemon starts the binary for one row, with the token installed.
func daemon(t *testing.T, o process.Options, command string) Target {
	t.Helper()
	log := &logged{}
	o.Env = append(o.Env, "AGENTD_LOG=debug", "AGENTD_OUTPUT_LINGER_SECS=1")
	o.Log = log
	d, err := process.Start(t.Context(), command, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Errorf("the daemon did not end well: %v", err)
		}
	})
	id := install(t, d.URL())
	return Target{URL: d.URL(), Token: token, PID: d.PID(), Log: log.Bytes, Knobs: testKnobs, Identity: id}
}

// install installs the token and an identity, which it returns.
func install(t *testing.T, url string) *Identity {
	t.Helper()
	id, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"runHookPayload":%q}`, fmt.Sprintf(`{"agent_token":%q,"identity_seed":%q,"identity_host_public_key":%q}`, token, id.Seed, id.HostPublic))
	resp, err := http.Post(url+api.HookPrefix+"/run", api.MediaJSON, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("the bootstrap answered %d", resp.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
	return id
}

// TestHostile plays every row, each against a process of its own, so that what
// one row leaves behind is not taken for another's.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, row := range Rows() {
		t.Run(row.ID, func(t *testing.T) {
			for _, id := range row.Requirements {
				t.Attr("requirement", id)
			}
			t.Parallel()
			target := target(t, row.ID)
			res := Run(t.Context(), target, row)
			for _, s := range res.Skipped {
				t.Logf("not played: %s: %s", s.Case, s.Reason)
			}
			for _, n := range res.Notes {
				t.Log(n)
			}
			for _, u := range res.Unseen {
				if os.Geteuid() == 0 {
					t.Errorf("not looked at: %s", u)
				} else {
					t.Logf("not looked at: %s", u)
				}
			}
			if res.Failed() {
				t.Error(res.String())
			}
			t.Logf("%d cases in %.1f s", res.Cases, res.Seconds)
		})
	}
}

// target starts the daemon that a row needs. E6 and E10 have one that is the
// first process of a PID namespace, as it is in a VM, where this user may make
// one: it collects the orphans that the rows make.
func target(t *testing.T, row string) Target {
	t.Helper()
	if (row == "T18" || row == "T19") && os.Geteuid() == 0 {
		return withMounts(t)
	}
	if (row != "E6" && row != "E10") || os.Geteuid() != 0 {
		return daemon(t, process.Options{}, binary)
	}
	// The namespace needs a view of its own processes.
	wrapper := filepath.Join(t.TempDir(), "agentd")
	text := "#!/bin/sh\nset -e\nmount --make-rprivate /\nmount -t proc proc /proc\nexec " + binary + "\n"
	if err := os.WriteFile(wrapper, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return daemon(t, process.Options{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}, wrapper)
}

// withMounts starts the daemon in a mount namespace of its own, with a small
// filesystem that its rows may fill and one that is read-only.
func withMounts(t *testing.T) Target {
	t.Helper()
	dir := t.TempDir()
	wrapper := filepath.Join(dir, "agentd")
	text := "#!/bin/sh\nset -e\nmount --make-rprivate /\nmkdir " + dir + "/small " + dir + "/ro\n" +
		"mount -t tmpfs -o size=64m tmpfs " + dir + "/small\nmount -t tmpfs -o ro tmpfs " + dir + "/ro\nexec " + binary + "\n"
	if err := os.WriteFile(wrapper, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	target := daemon(t, process.Options{Cloneflags: syscall.CLONE_NEWNS, Env: []string{"AGENTD_DISK_RESERVE_BYTES=16777216"}}, wrapper)
	target.Knobs.SmallDisk, target.Knobs.ReadOnly = dir+"/small", dir+"/ro"
	return target
}

// TestRowsAreWhole holds the catalogue to its own form.
func TestRowsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Rows() {
		if row.ID == "" || seen[row.ID] || row.Name == "" || row.Expect == "" || len(row.Requirements) == 0 || len(row.Cases) == 0 {
			t.Errorf("row %q lacks something or is there twice", row.ID)
		}
		seen[row.ID] = true
		names := map[string]bool{}
		for _, c := range row.Cases {
			if c.Name == "" || names[c.Name] || (c.Do == nil) == (c.Input == nil) || (c.Input != nil && len(c.Want.status) == 0) {
				t.Errorf("%s: case %q lacks something, expects nothing or is there twice", row.ID, c.Name)
			}
			names[c.Name] = true
		}
	}
	for _, id := range strings.Fields("W1 W3 W9 W10 W11 W12 H1 H2 H3 H5 H6 H7 H8 H10 H11 H12 H13 H14 E1 E2 E3 E4 E6 E7 E8 E10 E11 E12 T1 T2 T4 T6 T7 T8 T10 T11 T13 T14 T15 T16 T17 T18 T19") {
		if !seen[id] {
			t.Errorf("row %s is missing", id)
		}
	}
}
