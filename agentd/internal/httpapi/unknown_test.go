package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"microvms/agentd/api"
	"microvms/agentd/execution"
	"microvms/agentd/internal/hooks"
	"microvms/agentd/internal/limits"
	"microvms/agentd/internal/strictjson"
	"microvms/agentd/trace"
)

// refuser grants no permit, so that a command has no process.
type refuser struct{}

func (refuser) Acquire(context.Context, execution.Key, *execution.Command) (func(), error) {
	return nil, errors.New("no permit")
}

// TestUnknownGroupIsNull lists an execution that never had a process.
func TestUnknownGroupIsNull(t *testing.T) {
	t.Attr("requirement", "PROC-4")
	registry := execution.New(execution.Config{Admission: refuser{}, RegisterRefusals: true, Log: slog.New(slog.DiscardHandler)})
	defer registry.Close(context.Background())
	_, _, _ = registry.Start(t.Context(), execution.Key{Namespace: namespace, ID: "x"}, func(context.Context) (*execution.Command, error) {
		return &execution.Command{Path: "/bin/true", Args: []string{"true"}}, nil
	})
	s := New(Config{Log: slog.New(slog.DiscardHandler), Clock: trace.System{}, Limits: limits.Limits{}.WithDefaults(), Boot: hooks.New(1), Registry: registry})
	rec := httptest.NewRecorder()
	s.procs(&answer{ResponseWriter: rec, server: s, body: &body{eof: true}}, nil)
	if got := rec.Body.String(); !strings.Contains(got, `"exec_id":"x","pgid":null`) || !strings.Contains(got, `"pids":[]`) {
		t.Errorf("procs %s, want a null pgid and no pids", got)
	}
}

// TestUnmeasuredDiskIsNull measures a filesystem that is not there.
func TestUnmeasuredDiskIsNull(t *testing.T) {
	t.Attr("requirement", "HEALTH-7")
	if measureDisk(t.TempDir(), 1) == nil {
		t.Fatal("a filesystem that is there cannot be measured")
	}
	body, err := strictjson.Marshal(&api.Health{Disk: measureDisk(t.TempDir()+"/absent", 1)})
	if err != nil || !strings.Contains(string(body), `"disk":null`) {
		t.Errorf("health %s (%v), want a null disk", body, err)
	}
}
