package httpfront

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	jsonv2 "github.com/go-json-experiment/json"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/internal/strictjson"
	"microvms/agentd/manager/internal/runs"
)

// run accepts a run and waits until it has started or ended. A client that
// leaves meanwhile changes nothing.
func (f *Front) run(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, f.MaxMessageBytes)
	if err != nil {
		return err
	}
	request := new(msp.RunRequest)
	if err := calldata.Unmarshal(body, request); err != nil {
		return err // ADMIN-25: 500, as clients of the flow expect
	}
	spec, err := f.Spec(request)
	if err != nil {
		return err
	}
	var id runs.ID
	if err := f.Table.Run(r.Context(), spec, nil, func(n runs.ID) { id = n }); err != nil {
		return err
	}
	ev, err := f.Table.Wait(r.Context(), id, func(ev runs.Event) bool { return ev.Kind != runs.EventQueued })
	if err != nil {
		return err
	}
	if ev.Kind == runs.EventFailedToStart {
		return errors.New(ev.Error)
	}
	return answer(w, http.StatusOK, struct {
		Result string  `json:"result"`
		ID     runs.ID `json:"id"`
	}{"started", id})
}

// runID reads the run of the path.
func runID(r *http.Request) (runs.ID, error) {
	text := chi.URLParam(r, "id")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !digits(text) {
		return 0, errNotFound // ADMIN-26: a path that is no number names no route
	}
	return runs.ID(n), nil
}

type flowAnswer struct {
	ID     runs.ID     `json:"genvm_id"`
	Status *flowStatus `json:"status"`
}

// flowStatus is how a run ended, for clients of the flow: without its cause and
// exit code.
type flowStatus struct {
	FinishedAt   int64             `json:"finished_at"` // milliseconds since the epoch
	Stdout       string            `json:"stdout"`
	Stderr       string            `json:"stderr"`
	Log          []json.RawMessage `json:"genvm_log"`
	Metrics      json.RawMessage   `json:"metrics"`         // null when nil
	Consumed     *string           `json:"consumed_result"` // base64
	VersionMajor uint32            `json:"version_major"`
	VersionMinor uint32            `json:"version_minor"`
}

// result answers with how a run ended, and releases it.
func (f *Front) result(w http.ResponseWriter, r *http.Request) error {
	id, err := runID(r)
	if err != nil {
		return err
	}
	q, err := query(r, "wait")
	if err != nil {
		return err
	}
	var wait msp.Duration
	if text, ok := q["wait"]; ok {
		if wait, err = msp.ParseDuration(text); err != nil {
			return fmt.Errorf("cannot wait: %w", err) // ADMIN-28
		}
	}
	ctx, stop := f.within(r.Context(), wait)
	ev, err := f.Table.Wait(ctx, id, func(ev runs.Event) bool { return ev.Kind.Terminal() })
	stop()
	a := flowAnswer{ID: id}
	switch {
	case r.Context().Err() != nil:
		return context.Cause(r.Context())
	case err != nil, ev.Kind != runs.EventFinished:
		// ADMIN-27: null for a run that goes on, for one that is unknown and for one
		// that failed to start; none of them is released.
		return answer(w, http.StatusOK, a)
	}
	if a.Status, err = f.ending(r.Context(), id, ev.Finished); err != nil {
		return err
	}
	// ADMIN-29: before the answer, so that of two requests at once one gets the
	// ending and the other gets null.
	if a.Status != nil && f.Table.Ack(r.Context(), id) != nil {
		a.Status = nil
	}
	return answer(w, http.StatusOK, a)
}

// within bounds a wait, by the manager's clock and by MaxWait. No wait at all
// still sees what is there.
func (f *Front) within(ctx context.Context, wait msp.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	span := min(wait.Std(), MaxWait)
	if span <= 0 {
		cancel()
		return ctx, cancel
	}
	timer := f.Clock.AfterFunc(span, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// ending collects what the flow tells of a finished run; nil when the run was
// released meanwhile.
func (f *Front) ending(ctx context.Context, id runs.ID, fin *runs.Finished) (*flowStatus, error) {
	s := &flowStatus{
		FinishedAt:   fin.FinishedAt.UnixMilli(),
		VersionMajor: fin.Report.VersionMajor, VersionMinor: fin.Report.VersionMinor,
	}
	if fin.Report.Consumed != nil {
		text := base64.StdEncoding.EncodeToString(fin.Report.Consumed)
		s.Consumed = &text
	}
	if fin.Report.Metrics != nil {
		metrics, err := calldata.Decode(fin.Report.Metrics)
		if err != nil {
			return nil, fmt.Errorf("cannot read the metrics of the run: %w", err)
		}
		// The keys in one order, so that equal runs have equal answers.
		if s.Metrics, err = jsonv2.Marshal(metrics, jsonv2.Deterministic(true)); err != nil {
			return nil, fmt.Errorf("cannot encode the metrics of the run: %w", err)
		}
	}
	texts := map[runs.Field][]byte{}
	for _, field := range runs.Fields {
		text, err := f.whole(ctx, id, field)
		if errors.Is(err, runs.ErrUnknown) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		texts[field] = text
	}
	s.Stdout, s.Stderr = string(texts[runs.Stdout]), string(texts[runs.Stderr])
	s.Log = records(texts[runs.GenvmLog])
	return s, nil
}

// whole reads an artifact page by page.
func (f *Front) whole(ctx context.Context, id runs.ID, field runs.Field) ([]byte, error) {
	var text []byte
	for {
		total, page, err := f.Table.Artifact(ctx, id, field, uint64(len(text)), runs.PageBytes)
		if err != nil {
			return nil, err
		}
		if text = append(text, page...); uint64(len(text)) >= total || len(page) == 0 {
			return text, nil
		}
	}
}

// records splits the log into its objects. A line that is none becomes one.
func records(text []byte) []json.RawMessage {
	list := []json.RawMessage{}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !json.Valid(line) {
			line, _ = strictjson.Marshal(map[string]string{"line": string(line)}) // a map of text always encodes
		}
		list = append(list, json.RawMessage(line))
	}
	return list
}

// cancel stops a run and waits for its end.
func (f *Front) cancel(w http.ResponseWriter, r *http.Request) error {
	id, err := runID(r)
	if err != nil {
		return err
	}
	err = f.Table.Cancel(r.Context(), id)
	if err == nil {
		_, err = f.Table.Wait(r.Context(), id, func(ev runs.Event) bool { return ev.Kind.Terminal() })
	}
	switch {
	case errors.Is(err, runs.ErrUnknown):
		// ADMIN-30: 200 with an error, as clients of the flow expect: the run is gone,
		// which is what they asked for.
		return answer(w, http.StatusOK, struct {
			Error string  `json:"error"`
			ID    runs.ID `json:"genvm_id"`
		}{err.Error(), id})
	case err != nil:
		return err
	}
	return answer(w, http.StatusOK, struct {
		Result string  `json:"result"`
		ID     runs.ID `json:"genvm_id"`
	}{"shutdown_completed", id})
}

// artifact answers with a page of an artifact.
func (f *Front) artifact(w http.ResponseWriter, r *http.Request) error {
	id, err := runID(r)
	if err != nil {
		return err
	}
	q, err := query(r, "field", "offset", "max_len")
	if err != nil {
		return err
	}
	for _, name := range []string{"field", "max_len"} {
		if _, ok := q[name]; !ok {
			return bad("the query must name %q", name) // ADMIN-31
		}
	}
	offset := uint64(0)
	if text, ok := q["offset"]; ok {
		if offset, err = number("offset", text, 64); err != nil {
			return err
		}
	}
	limit, err := number("max_len", q["max_len"], 32)
	if err != nil {
		return err
	}
	field := runs.Field(q["field"])
	total, data, err := f.Table.Artifact(r.Context(), id, field, offset, uint32(limit))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, struct {
		ID    runs.ID    `json:"genvm_id"`
		Field runs.Field `json:"field"`
		Total uint64     `json:"total_len"`
		Data  string     `json:"data_base64"`
	}{id, field, total, base64.StdEncoding.EncodeToString(data)})
}
