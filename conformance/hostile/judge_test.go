package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"microvms/agentd/api"
	"microvms/conformance/process"
)

// lie is a way in which a daemon betrays its contract. It returns true when it
// has answered itself; otherwise the request goes on to the honest daemon.
type lie func(w http.ResponseWriter, r *http.Request) bool

// liar is a daemon that is honest but for one lie: a proxy before the binary.
func liar(t *testing.T, honest Target, l lie) Target {
	t.Helper()
	to, err := url.Parse(honest.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		ErrorLog:      discard,
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	server.Config.ErrorLog = discard
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	honest.URL = server.URL
	return honest
}

// honesty refuses a bad bearer itself: the proxy would read the body first.
func honesty(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != "POST" || r.Header.Get("Authorization") == "Bearer "+token {
		return false
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // else the answer waits for the body
	w.Header().Set(api.HeaderVersion, "x")
	w.Header().Set("Connection", "close")
	w.WriteHeader(401)
	return true
}

// quickKnobs make a judge that waits in vain give up soon.
var quickKnobs = Knobs{Limit: 10 * time.Second, Longest: time.Millisecond, Volume: 1 << 20, Settle: 2 * time.Second}

func rowByID(t *testing.T, id string) Row {
	t.Helper()
	for _, row := range Rows() {
		if row.ID == id {
			return row
		}
	}
	t.Fatalf("no row %s", id)
	return Row{}
}

// only keeps the cases of those names.
func only(row Row, names ...string) Row {
	var kept []Case
	for _, c := range row.Cases {
		for _, n := range names {
			if c.Name == n {
				kept = append(kept, c)
			}
		}
	}
	row.Cases = kept
	return row
}

// TestLiesTurnRowsRed holds each row against a daemon that breaks exactly what
// the row is about, and against the same daemon without the lie.
func TestLiesTurnRowsRed(t *testing.T) {
	t.Parallel()
	rightBearer := func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Set("Authorization", "Bearer "+token)
		return false
	}
	for _, c := range []struct {
		name  string
		row   Row
		lie   lie
		fault string // in the result
	}{
		{"accepts any bearer", rowByID(t, "H1"), rightBearer, "token cut"},
		{"accepts two bearers", only(rowByID(t, "H1"), "right one twice"), rightBearer, "right one twice"},
		{"never answers a bad bearer", only(rowByID(t, "H1"), "token cut"), hang, "token cut"},
		{"reads the body before it refuses", only(rowByID(t, "H1"), "wrong token before a body that never comes"), readFirst, "body that never comes"},
		{"invites before it refuses", only(rowByID(t, "H6"), "wrong token"), readFirst, "wrong token"},
		{"normalises paths", rowByID(t, "H11"), func(_ http.ResponseWriter, r *http.Request) bool {
			r.URL.Path, r.URL.RawPath = path.Clean(r.URL.Path), ""
			return false
		}, "two slashes before a route"},
		{"clamps offsets", rowByID(t, "H14"), func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Query().Get("offset"), "-") {
				r.URL.RawQuery = "offset=0"
			}
			return false
		}, "-1"},
		{"omits the version", only(rowByID(t, "H11"), "a dot"), func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/./") {
				w.WriteHeader(404)
			}
			return strings.Contains(r.URL.Path, "/./")
		}, "microvms-agentd-version"},
		{"registers what it refused", only(rowByID(t, "E1"), "a missing path"), startAnyway, "a missing path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			honest := daemon(t, process.Options{}, binary)
			honest.Knobs = quickKnobs
			if res := Run(t.Context(), liar(t, honest, c.lie), c.row); !strings.Contains(strings.Join(res.Failures, "\n"), c.fault) {
				t.Errorf("the lie was not found: %v", res.String())
			}
		})
	}
	t.Run("the same without a lie", func(t *testing.T) {
		t.Parallel()
		honest := daemon(t, process.Options{}, binary)
		for _, row := range []Row{
			only(rowByID(t, "H1"), "token cut", "right one twice", "wrong token before a body that never comes"),
			only(rowByID(t, "H6"), "wrong token"), only(rowByID(t, "H11"), "two slashes before a route", "a dot"),
			only(rowByID(t, "H14"), "-1"), only(rowByID(t, "E1"), "a missing path"),
		} {
			if res := Run(t.Context(), liar(t, honest, honesty), row); res.Failed() {
				t.Error(res.String())
			}
		}
	})
}

func hang(_ http.ResponseWriter, r *http.Request) bool {
	if strings.Contains(r.URL.Path, "procs") && r.Header.Get("Authorization") != "Bearer "+token {
		<-r.Context().Done()
		return true
	}
	return false
}

// readFirst waits for the body of a start before anything is decided, unless
// its bearer is right.
func readFirst(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == "POST" && r.Header.Get("Authorization") != "Bearer "+token {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	return false
}

// startAnyway says that a start has failed, after another one of its id.
func startAnyway(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != api.PathExecStart {
		return false
	}
	body, err := io.ReadAll(r.Body)
	text := strings.ReplaceAll(string(body), "/no/such/program", "/bin/true")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	if err != nil || text == string(body) {
		return false
	}
	self := "http://" + r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
	req, _ := http.NewRequestWithContext(r.Context(), "POST", self+r.URL.Path, strings.NewReader(text)) // the URL is well-formed
	req.Header = r.Header
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	w.Header().Set(api.HeaderVersion, "x")
	w.WriteHeader(api.SpawnFailed.Status())
	fmt.Fprintf(w, `{"error":%q,"detail":"no such file"}`, api.SpawnFailed)
	return true
}

// TestLeaksTurnARowRed has a row leave behind each thing that is counted.
func TestLeaksTurnARowRed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		do     func(ctx context.Context, p *probe) error
		faults []string
	}{
		{"a connection", func(ctx context.Context, p *probe) error {
			return leakStream(ctx, t, p)
		}, []string{"connection slots: ", "descriptors: "}},
		{"a child", func(ctx context.Context, p *probe) error {
			return newProbe(p.Target, "leak").start(ctx, "leaked", argv("/bin/sleep", "300"))
		}, []string{"children: "}},
		{"memory", func(ctx context.Context, p *probe) error {
			return taken(ctx, p, zeros(64<<20))
		}, []string{"memory: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := daemon(t, process.Options{}, binary)
			target.Knobs = quickKnobs
			if c.name == "memory" {
				target.Knobs.Ceiling = 1 << 20
			}
			row := Row{ID: "X", Name: "a leak", Cases: []Case{{Name: c.name, Do: c.do}}}
			res := Run(t.Context(), target, row)
			for _, fault := range c.faults {
				if !strings.Contains(strings.Join(res.Failures, "\n"), fault) {
					t.Errorf("the leak was not found: %v", res.String())
				}
			}
			// The daemon must be able to end: what was left is ended here.
			_, _ = newProbe(target, "end").kill(t.Context(), "leaked")
		})
	}
}

// leakStream holds a stream beyond the row's end.
func leakStream(ctx context.Context, t *testing.T, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, script("exec sleep 300")); err != nil {
		return err
	}
	p.execs = nil // so that the row does not end it
	s, err := p.attach(ctx, id, 0)
	if err != nil {
		return err
	}
	t.Cleanup(func() { s.Close() })
	return s.SetDeadline(time.Time{})
}

// TestADaemonThatDiesTurnsARowRed stops answering during the row.
func TestADaemonThatDiesTurnsARowRed(t *testing.T) {
	honest := daemon(t, process.Options{}, binary)
	honest.Knobs = quickKnobs
	dead := false
	target := liar(t, honest, func(w http.ResponseWriter, r *http.Request) bool {
		if dead {
			w.WriteHeader(500)
		}
		return dead
	})
	row := Row{ID: "X", Name: "death", Cases: []Case{{Name: "dies", Do: func(context.Context, *probe) error { dead = true; return nil }}}}
	if res := Run(t.Context(), target, row); len(res.Failures) != 1 || !strings.Contains(res.Failures[0], "after the row") {
		t.Errorf("the death was not found: %v", res.String())
	}
	if res := Run(t.Context(), target, row); len(res.Failures) != 1 || !strings.Contains(res.Failures[0], "before the row") {
		t.Errorf("a dead daemon was judged: %v", res.String())
	}
}

// TestARowThatLooksAtNothingIsRed plays a row of which no case can be played.
func TestARowThatLooksAtNothingIsRed(t *testing.T) {
	target := daemon(t, process.Options{}, binary)
	row := Row{ID: "X", Cases: []Case{{Name: "none", Do: func(context.Context, *probe) error { return skipped("why") }}}}
	if res := Run(t.Context(), target, row); !res.Failed() || len(res.Failures) != 0 || len(res.Skipped) != 1 {
		t.Errorf("a row without a played case: %v", res.String())
	}
}
