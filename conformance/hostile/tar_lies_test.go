package hostile

import (
	"net/http"
	"strings"
	"testing"

	"microvms/agentd/api"
	"microvms/conformance/process"
)

// uploads applies a lie to uploads of archives alone.
func uploads(l lie) lie {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == "PUT" && r.URL.Path == api.PathTar && l(w, r)
	}
}

// says answers an upload without placing anything.
func says(status int, body string) lie {
	return uploads(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set(api.HeaderVersion, "x")
		w.WriteHeader(status)
		if body != "" {
			_, _ = w.Write([]byte(body))
		}
		return true
	})
}

// TestTarLiesTurnRowsRed holds rows of archives against daemons that place too
// little, too much, or in another place, and against an honest one.
func TestTarLiesTurnRowsRed(t *testing.T) {
	t.Parallel()
	// Places beside the root what is to go below it.
	beside := uploads(func(_ http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		q.Set("path", strings.TrimSuffix(q.Get("path"), "/root")+"/canary")
		r.URL.RawQuery = q.Encode()
		return false
	})
	for _, c := range []struct {
		name  string
		row   Row
		lie   lie
		fault string
	}{
		{"accepts every name", only(rowByID(t, "T1"), "../x"), says(204, ""), "want status [400]"},
		{"does not name the member", only(rowByID(t, "T1"), "../x"), says(400, "no"), "does not say"},
		{"answers with raw bytes", only(rowByID(t, "T17"), "escape in a refused name"), says(400, "../\x1b[2J"), "raw byte"},
		{"places nothing", only(rowByID(t, "T8"), "file twice"), says(204, ""), "below the root is"},
		{"places beside the root", only(rowByID(t, "T8"), "file twice"), beside, "beside the root is"},
		{"keeps no bytes", only(rowByID(t, "T17"), "bytes kept exactly"), says(204, ""), "the download names"},
		{"takes what is cut", only(rowByID(t, "T14"), "before the end"), says(204, ""), "want status [500]"},
		{"makes no target", only(rowByID(t, "T19"), "missing"), says(500, "no"), "want status [204]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			honest := daemon(t, process.Options{}, binary)
			honest.Knobs = quickKnobs
			if res := Run(t.Context(), honest, c.row); res.Failed() {
				t.Errorf("without the lie: %v", res.String())
			}
			if res := Run(t.Context(), liar(t, honest, c.lie), c.row); !strings.Contains(strings.Join(res.Failures, "\n"), c.fault) {
				t.Errorf("the lie was not found: %v", res.String())
			}
		})
	}
}
