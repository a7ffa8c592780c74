package agentd_test

import (
	"testing"

	"microvms/agentd/api"
)

// TestExecRoundTrip takes one command through start, stream, poll and ack, and
// checks each answer byte for byte.
func TestExecRoundTrip(t *testing.T) {
	t.Attr("requirement", "EXEC-1")
	t.Attr("requirement", "EXEC-21")
	t.Attr("requirement", "EXEC-23")
	t.Attr("requirement", "EXEC-24")
	t.Attr("requirement", "OUT-5")
	d := booted(t, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", api.PathExecStart, `{"exec_id":"a/b","command":["printf 'x<y>&\\377'"],"shell":true}`, 200, `{"exec_id":"a/b","phase":"running"}`},
		{"GET", "/v1/exec/a%2Fb/stream?offset=4", "", 200,
			"event: output\ndata: {\"offset\":4,\"stream\":\"stdout\",\"output\":\"Jv8=\"}\n\n" +
				"event: exit\ndata: {\"exit_code\":0,\"signal\":null,\"timed_out\":false,\"truncated\":false,\"writers_may_be_alive\":false,\"offset\":6}\n\n"},
		{"GET", "/v1/exec/a%2Fb", "", 200, `{"exec_id":"a/b","phase":"exited","exit_code":0,"signal":null,"timed_out":false,"stdout":"x<y>&` + "\uFFFD" + `","stderr":"","truncated":false,"writers_may_be_alive":false}`},
		{"POST", api.PathExecStart, `{"exec_id":"a/b","command":["false"]}`, 200, `{"exec_id":"a/b","phase":"running"}`},
		{"GET", "/v1/exec/a%2Fb", "", 200, `{"exec_id":"a/b","phase":"exited","exit_code":0,"signal":null,"timed_out":false,"stdout":"x<y>&` + "\uFFFD" + `","stderr":"","truncated":false,"writers_may_be_alive":false}`},
		{"POST", "/v1/exec/a%2Fb/ack", "", 200, `{"exec_id":"a/b","phase":"acked","exit_code":0,"signal":null,"timed_out":false,"stdout":"x<y>&` + "\uFFFD" + `","stderr":"","truncated":false,"writers_may_be_alive":false}`},
		{"GET", "/v1/exec/a%2Fb", "", 200, `{"exec_id":"a/b","phase":"acked"}`},
	} {
		if r := d.call(c.method, c.path, c.body); r.status != c.status || r.body != c.want {
			t.Errorf("%s %s = %v\nwant %d %q", c.method, c.path, r, c.status, c.want)
		}
	}
}
