package histories

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"microvms/agentd/api"
	"microvms/client/microvmtest"
)

// startFake starts the client's fake daemon with a run hook, which the fake itself has not.
func startFake(context.Context, uint64) (string, func() error, error) {
	fake := microvmtest.New()
	fake.Token = ""
	fake.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != api.HookPrefix+"/"+api.HookRun {
			next.ServeHTTP(w, r)
			return
		}
		var envelope api.RunHookEnvelope
		var payload map[string]json.RawMessage
		if json.NewDecoder(r.Body).Decode(&envelope) != nil || json.Unmarshal([]byte(*envelope.RunHookPayload), &payload) != nil ||
			json.Unmarshal(payload[api.PayloadToken], &fake.Token) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	}
	server := httptest.NewServer(fake)
	return strings.TrimPrefix(server.URL, "http://"), func() error { server.Close(); fake.Close(); return nil }, nil
}

// TestFakeFileHistoriesAreLinearizable judges the client's fake daemon as the real one: users of the fake rely on it.
func TestFakeFileHistoriesAreLinearizable(t *testing.T) {
	t.Attr("requirement", "CLIENT-33")
	r, err := Run(context.Background(), Config{
		Scope: ByPath, Histories: count(t, 50), Seed: 1, Workers: 2, PerDaemon: 25, Start: startFake, FailDir: t.TempDir(), Root: "/histories",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		t.Error(f)
	}
	if r.Undecided > 0 || r.Operations < 40*r.Histories || r.Overlapping < 3*r.Histories || r.Open == 0 {
		t.Errorf("%d histories not decided; %d operations, %d overlapping, %d open", r.Undecided, r.Operations, r.Overlapping, r.Open)
	}
}
