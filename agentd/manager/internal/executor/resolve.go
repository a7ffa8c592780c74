package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/manager/internal/manifest"
)

// selector is the selector that counts: the request's, or what its overrides
// put in its place.
func selector(req *msp.RunRequest) msp.Selector {
	to := req.UnsafeOverrides.RerouteTo
	// EXECUTOR-8: below the mode the override is ignored without a word, as its
	// name says: it is a tool of those who debug.
	if to != "" && req.DebugMode.AtLeast(msp.DebugSafe) {
		return msp.Selector{IsVersion: true, Version: to}
	}
	return req.Selector
}

// resolve finds the executor's directory name and the version that it stands
// for, the zero one when the name is no version.
func (l *Launcher) resolve(s msp.Selector, at msp.Timestamp) (string, manifest.Version, error) {
	pattern, isPattern := strings.CutPrefix(s.Version, "re:")
	if s.IsVersion && !isPattern {
		if err := checkName(s.Version); err != nil {
			return "", manifest.Version{}, err
		}
		// EXECUTOR-4: taken as it is, the time ignored, so that a version that
		// the manifest does not know yet can be tried.
		v, err := manifest.ParseVersion(s.Version)
		if err != nil {
			v = manifest.Version{}
		}
		return s.Version, v, nil
	}
	if l.cfg.Manifest == nil {
		// EXECUTOR-11: without the list nothing says which one is the newest.
		return "", manifest.Version{}, errors.New("cannot choose an executor: there is no manifest; name a version, or start the manager with --manifest-path")
	}
	var c manifest.Choice
	var err error
	if s.IsVersion {
		c, err = l.cfg.Manifest.Current().Pattern(pattern, at.Time())
	} else {
		c, err = l.cfg.Manifest.Current().Major(s.Major, at.Time())
	}
	if err != nil {
		return "", manifest.Version{}, fmt.Errorf("cannot choose an executor: %w", err)
	}
	if c.Early {
		l.cfg.Log.Warn("no executor is available at the run's time: the newest is used", "version", c.Name)
	}
	return c.Name, c.Version, nil
}

// checkName refuses literal names that are no single directory.
//
// EXECUTOR-3: the name comes from a client and becomes part of the path of a
// program.
func checkName(name string) error {
	if name == "" || name == "." || strings.Contains(name, "..") || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf(`cannot use version %q: it is not the name of a directory; leave out "/", ".." and NUL`, name)
	}
	return nil
}

// rewriteMethod renames the key "method" of encoded calldata to "", in place of
// an entry that has it already. What is no map with that key stays as it is,
// also when it is no calldata at all.
//
// EXECUTOR-1: the reference does so, and older clients send the long key to
// executors that know the empty one only.
func rewriteMethod(data []byte) []byte {
	var entries map[string]calldata.Raw
	if calldata.Unmarshal(data, &entries) != nil {
		return data
	}
	value, ok := entries["method"]
	if !ok {
		return data
	}
	delete(entries, "method")
	entries[""] = value
	out, err := calldata.Marshal(entries)
	if err != nil {
		return data
	}
	return out
}

// hostData is what the manager reads of a run's host data, both as JSON.
type hostData struct {
	NodeAddress json.RawMessage `json:"node_address"`
	TxID        json.RawMessage `json:"tx_id"`
}

// readHostData reads the host data of a run with modules.
//
// EXECUTOR-13: the modules account for their work by these two.
func readHostData(text string) (*hostData, error) {
	var d hostData
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, errors.New("cannot read host_data: a run with modules needs a JSON object there")
	}
	if d.NodeAddress == nil || d.TxID == nil {
		return nil, errors.New("cannot use host_data: a run with modules needs node_address and tx_id there")
	}
	return &d, nil
}
