package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"microvms/client"
)

// Status is what a manager says of itself (manager facts, section 7).
type Status struct {
	LLM     string        `json:"llm_module"` // running, stopped or stopping
	Web     string        `json:"web_module"`
	Permits PermitsStatus `json:"permits"`
	// Runs are the runs that the manager knows, by number.
	Runs map[uint64]RunStatus `json:"executions"`
}

// PermitsStatus is the pool of permits and what a run takes of it.
type PermitsStatus struct {
	Free   int `json:"current"`
	Total  int `json:"max"`
	Sync   int `json:"per_sync_run"`
	Nondet int `json:"per_nondet_run"`
}

// RunStatus is a run that the manager knows.
type RunStatus struct {
	Result *struct {
		FinishedAt time.Time `json:"finished_at"`
	} `json:"result"` // nil: not finished, or failed to start
	Version   string     `json:"version"`    // of the executor, empty before it is resolved
	StartedAt *time.Time `json:"started_at"` // nil: no process was created
	Deadline  time.Time  `json:"strict_deadline"`
}

// maxStatusBytes bounds the answer that ReadStatus reads.
const maxStatusBytes = 16 << 20

// ReadStatus asks the manager at address, in the forms of [Dial], how it is. It
// makes one request and keeps no connection.
func ReadStatus(ctx context.Context, address string, opts ...Option) (*Status, error) {
	at, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	s := newSettings(opts)
	bounded, cancel := context.WithTimeoutCause(ctx, s.dialTimeout, errDialTimeout)
	defer cancel()
	failed := func(err error) error {
		if ctx.Err() != nil {
			return stopped("the manager's status", ctx)
		}
		return &client.Error{Kind: client.KindRetryable, Wire: client.WireTransport, Message: "cannot read the status of the manager at " + at.String(), Err: plain(err)}
	}
	httpClient, transport := at.httpClient()
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(bounded, http.MethodGet, at.base+"/status", nil)
	if err != nil {
		return nil, invalidArg("manager address: %v", err)
	}
	request.Header.Set("User-Agent", "microvm-client")
	resp, err := httpClient.Do(request)
	if err != nil {
		return nil, failed(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatusBytes+1))
	if err != nil {
		return nil, failed(err)
	}
	if resp.StatusCode != http.StatusOK {
		cause := &client.APIError{Method: http.MethodGet, Path: "/status", Status: resp.StatusCode, Detail: string(body[:min(len(body), maxText)])}
		return nil, &client.Error{Kind: client.KindProtocol, Message: fmt.Sprintf("no manager answers at %v", at), Err: cause}
	}
	out := new(Status) // MCLIENT-23
	if err := json.Unmarshal(body, out); err != nil || len(body) > maxStatusBytes {
		return nil, protocolError("cannot read the status of the manager at %v: %d bytes that are not it", at, len(body))
	}
	return out, nil
}

// Numbers are the numbers of the runs in ascending order.
func (s *Status) Numbers() []uint64 { return slices.Sorted(maps.Keys(s.Runs)) }
