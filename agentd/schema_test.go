package agentd_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"microvms/agentd"
	"microvms/agentd/api"
)

// TestServedSchemaIsTheCommittedOne compares GET /v1/schema of a daemon with
// its defaults with the committed file: the same bytes but for white space and
// the daemon's own version.
func TestServedSchemaIsTheCommittedOne(t *testing.T) {
	t.Attr("requirement", "SCHEMA-4")
	committed, err := os.ReadFile("api/schema/current.json")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, committed); err != nil {
		t.Fatal(err)
	}
	d := start(t, func(c *agentd.Config) { c.Limits = agentd.Limits{} })
	got := d.with("GET", api.PathSchema, "", nil).body
	if w := strings.Replace(want.String(), `"daemon_version":"0.0.0-dev"`, `"daemon_version":"1.2.3-test"`, 1); got != w {
		at := 0
		for at < min(len(got), len(w)) && got[at] == w[at] {
			at++
		}
		t.Errorf("differ at byte %d: served %.200q, committed %.200q", at, got[at:], w[at:])
	}
}

// TestSchemaKeysAreSorted walks the served document.
func TestSchemaKeysAreSorted(t *testing.T) {
	t.Attr("requirement", "SCHEMA-3")
	d := start(t, nil)
	body := d.with("GET", api.PathSchema, "", nil).body
	objects, problem := sortedKeys(json.NewDecoder(strings.NewReader(body)))
	if problem != "" || objects < 200 {
		t.Errorf("%d objects: %s", objects, problem)
	}
	if _, problem := sortedKeys(json.NewDecoder(strings.NewReader(`{"a":[{"c":1,"b":2}]}`))); problem == "" {
		t.Error("keys out of order are not noticed")
	}
}

// sortedKeys counts the objects of a document and names a key out of order.
func sortedKeys(in *json.Decoder) (objects int, problem string) {
	token, err := in.Token()
	if err != nil {
		return 0, err.Error()
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return 0, ""
	}
	last, isObject := "", delim == '{'
	for in.More() {
		if isObject {
			key, err := in.Token()
			if err != nil {
				return objects, err.Error()
			}
			if k := key.(string); k <= last && problem == "" {
				problem = fmt.Sprintf("%q comes after %q", k, last)
			} else {
				last = k
			}
		}
		n, p := sortedKeys(in)
		objects, problem = objects+n, cmp.Or(problem, p)
	}
	if _, err := in.Token(); err != nil {
		return objects, err.Error()
	}
	if isObject {
		objects++
	}
	return objects, problem
}

// TestSchemaHead checks the keys beside the routes.
func TestSchemaHead(t *testing.T) {
	t.Attr("requirement", "SCHEMA-1")
	d := start(t, nil)
	var doc map[string]json.RawMessage
	if err := json.Unmarshal([]byte(d.with("GET", api.PathSchema, "", nil).body), &doc); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for k := range doc {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	want := "$defs $schema auth daemon_version definition_collisions generated_from hook_prefix limits protocol_version routes title unmatched_path version_header"
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
	for key, want := range map[string]string{
		"$schema": `"https://json-schema.org/draft/2020-12/schema"`, "definition_collisions": `[]`, "hook_prefix": `"/aws/lambda-microvms/runtime/v1"`,
		"title": `"microvms-agentd wire protocol"`, "version_header": `"microvms-agentd-version"`, "protocol_version": `"2"`,
	} {
		if got := string(doc[key]); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	var auth struct {
		Scheme, Header string
		Bootstrap      map[string]string
	}
	var unmatched struct{ Code int }
	if json.Unmarshal(doc["auth"], &auth) != nil || auth.Scheme != "bearer" || auth.Header != "authorization" || auth.Bootstrap["wrong_token"] != "401" || len(auth.Bootstrap) != 4 {
		t.Errorf("auth %s", doc["auth"])
	}
	if json.Unmarshal(doc["unmatched_path"], &unmatched) != nil || unmatched.Code != http.StatusNotFound {
		t.Errorf("unmatched_path %s", doc["unmatched_path"])
	}
}
