package httpfront

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"microvms/agentd/api/msp"
	"microvms/agentd/internal/strictjson"
	"microvms/agentd/manager/internal/executor"
	"microvms/agentd/manager/internal/runs"
	"microvms/agentd/manager/settings"
)

type statusAnswer struct {
	LLM        executor.ModuleState       `json:"llm_module"`
	Web        executor.ModuleState       `json:"web_module"`
	Permits    permitsAnswer              `json:"permits"`
	Executions map[string]executionAnswer `json:"executions"`
}

type permitsAnswer struct {
	Current int `json:"current"` // free
	Max     int `json:"max"`
	Sync    int `json:"per_sync_run"`
	Nondet  int `json:"per_nondet_run"`
}

type executionAnswer struct {
	Result    *resultAnswer `json:"result"` // nil without a result
	Version   string        `json:"version"`
	StartedAt *string       `json:"started_at"` // nil without a process
	Deadline  string        `json:"strict_deadline"`
}

type resultAnswer struct {
	FinishedAt string `json:"finished_at"`
}

// status shows modules, permits and the known runs.
func (f *Front) status(w http.ResponseWriter, _ *http.Request) error {
	total, free := f.Table.Permits()
	// ADMIN-10: free permits beside the size of the pool, so that busy is told from ill.
	a := statusAnswer{
		LLM: f.Modules.State(executor.LLM), Web: f.Modules.State(executor.Web),
		Permits:    permitsAnswer{free, total, f.SyncCost, f.NondetCost},
		Executions: map[string]executionAnswer{},
	}
	for _, s := range f.Table.Status() {
		e := executionAnswer{Version: s.Version, Deadline: msp.At(s.Deadline).String()}
		if !s.StartedAt.IsZero() {
			at := msp.At(s.StartedAt).String()
			e.StartedAt = &at
		}
		if s.Phase == runs.PhaseFinished {
			// ADMIN-11: a run that failed to start has no result, also not an empty one.
			e.Result = &resultAnswer{msp.At(s.FinishedAt).String()}
		}
		a.Executions[strconv.FormatUint(uint64(s.ID), 10)] = e
	}
	return answer(w, http.StatusOK, a)
}

// permits shows the size of the pool.
func (f *Front) permits(w http.ResponseWriter, _ *http.Request) error {
	total, _ := f.Table.Permits() // ADMIN-12: the size, not what is free
	return answer(w, http.StatusOK, map[string]int{"permits": total})
}

// setPermits changes the size of the pool.
func (f *Front) setPermits(w http.ResponseWriter, r *http.Request) error {
	var request struct {
		Permits json.RawMessage `json:"permits"`
	}
	if err := readJSON(w, r, &request); err != nil {
		return err
	}
	if !digits(string(request.Permits)) {
		return errors.New("permits must be an integer of 0 or more") // ADMIN-14
	}
	n, err := strconv.ParseUint(string(request.Permits), 10, 32)
	if err != nil {
		return errors.New("permits must be below 2^32")
	}
	// ADMIN-13: a pool in which the dearest run does not fit would hold it for ever.
	if int(n) >= max(f.SyncCost, f.NondetCost) {
		// ADMIN-15: the table takes permits out as they come back, and waits for none.
		if err := f.Table.SetPermits(r.Context(), int(n)); err != nil {
			return err
		}
	}
	total, _ := f.Table.Permits()
	return answer(w, http.StatusOK, struct {
		Result  string `json:"result"`
		Permits int    `json:"permits"`
	}{"permits_set", total})
}

type moduleRequest struct {
	Type   string           `json:"module_type"`
	Config *json.RawMessage `json:"config"` // nil: null
}

func (m *moduleRequest) module() executor.ModuleType { return executor.ModuleType(m.Type) }

// config is what the module's program gets.
func (m *moduleRequest) config() []byte {
	if m.Config == nil {
		return []byte("null")
	}
	return *m.Config
}

// module reads a request about a module.
func module(w http.ResponseWriter, r *http.Request) (m moduleRequest, err error) {
	if err = readJSON(w, r, &m); err != nil {
		return m, err
	}
	// ADMIN-17: published descriptions write the types small.
	switch m.Type = strings.ToLower(m.Type); m.module() {
	case executor.LLM, executor.Web:
	default:
		return m, bad("module_type must be Llm or Web")
	}
	return m, nil
}

type outcome struct {
	Result string `json:"result"`
}

func (f *Front) startModule(w http.ResponseWriter, r *http.Request) error {
	m, err := module(w, r)
	if err != nil {
		return err
	}
	// ADMIN-18: the request's configuration goes to the program as it is.
	if err := f.Modules.Start(r.Context(), m.module(), m.config()); err != nil {
		return err // ADMIN-16: also when no program is configured
	}
	return answer(w, http.StatusOK, outcome{"module_started"})
}

func (f *Front) restartModule(w http.ResponseWriter, r *http.Request) error {
	m, err := module(w, r)
	if err != nil {
		return err
	}
	if _, err := f.Modules.Stop(r.Context(), m.module()); err != nil {
		return err
	}
	if err := f.Modules.Start(r.Context(), m.module(), m.config()); err != nil {
		return err
	}
	return answer(w, http.StatusOK, outcome{"module_restarted"})
}

func (f *Front) stopModule(w http.ResponseWriter, r *http.Request) error {
	m, err := module(w, r)
	if err != nil {
		return err
	}
	ran, err := f.Modules.Stop(r.Context(), m.module())
	switch {
	case err != nil:
		return err
	case !ran: // ADMIN-19: a second stop is no failure
		return answer(w, http.StatusOK, outcome{"module_not_running"})
	}
	return answer(w, http.StatusOK, outcome{"module_stopped"})
}

// setLevel changes what the manager logs.
func (f *Front) setLevel(w http.ResponseWriter, r *http.Request) error {
	var request struct {
		Level string `json:"level"`
	}
	if err := readJSON(w, r, &request); err != nil {
		return err
	}
	level, ok := settings.ParseLevel(request.Level)
	if !ok {
		return errors.New("level must be trace, debug, info, warn, error or off") // ADMIN-20
	}
	if f.SetLevel == nil {
		return errors.New("the level of this manager's log is fixed")
	}
	f.SetLevel(level)
	return answer(w, http.StatusOK, struct {
		Result string `json:"result"`
		Level  string `json:"level"`
	}{"log_level_set", levelName(level)})
}

// levelName is a level as it is answered: capitalised, one name for each.
func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "Trace"
	case l > slog.LevelError:
		return "Off"
	}
	return l.String()[:1] + strings.ToLower(l.String()[1:])
}

func (f *Front) reloadManifest(w http.ResponseWriter, _ *http.Request) error {
	if f.ReloadManifest == nil {
		return errors.New("no manifest is configured: only literal versions resolve")
	}
	if err := f.ReloadManifest(); err != nil {
		return err // ADMIN-21: the manifest in force stays
	}
	return answer(w, http.StatusOK, outcome{"manifest_reloaded"})
}

// detectVersion finds the major version that a contract asks for.
func (f *Front) detectVersion(w http.ResponseWriter, r *http.Request) error {
	at := r.Header["Deployment-Timestamp"]
	if len(at) != 1 {
		return bad("the header Deployment-Timestamp must be given once")
	}
	moment, err := msp.ParseTimestamp(at[0])
	if err != nil {
		return bad("the header Deployment-Timestamp is no RFC 3339 timestamp")
	}
	if f.DetectVersion == nil {
		return errors.New("no program that detects the version of a contract is configured") // ADMIN-22
	}
	code, err := readBody(w, r, f.MaxMessageBytes)
	if err != nil {
		return err
	}
	major, err := f.DetectVersion(r.Context(), code, moment.Time())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, map[string]uint32{"specified_major": major})
}

// checkLLM hands a check over to the LLM module.
func (f *Front) checkLLM(w http.ResponseWriter, r *http.Request) error {
	var request json.RawMessage
	if err := readJSON(w, r, &request); err != nil {
		return err
	}
	if f.CheckLLM == nil {
		return errors.New("no LLM module that can check providers is configured") // ADMIN-23
	}
	results, err := f.CheckLLM(r.Context(), request)
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if strictjson.Unmarshal(results, &list) != nil {
		return errors.New("the LLM module did not answer with a list")
	}
	return answer(w, http.StatusOK, list)
}

// describeError explains an error of the virtual machine.
func (f *Front) describeError(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "error")
	if err != nil {
		return err
	}
	name, ok := q["error"]
	if !ok {
		return bad(`the query must name an "error"`)
	}
	var a struct {
		Description *string `json:"description"`
	}
	if text, ok := f.VMErrors[name]; ok {
		a.Description = &text
	}
	return answer(w, http.StatusOK, a) // ADMIN-24: null for what nobody described
}
