package manager_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager"
)

// TestFlowClientLeaves cuts a request whose run waits in the queue: the run goes
// on, and its ending can be fetched.
func TestFlowClientLeaves(t *testing.T) {
	t.Attr("requirement", "ADMIN-5")
	t.Attr("requirement", "ADMIN-25")
	accepted := make(accepts, 1)
	s := start(t, func(c *manager.Config) {
		c.Permits, c.SyncCost, c.NondetCost = 4, 4, 4
		c.Recorder = accepted
	})
	p := s.dial()
	shell, release := fifo(t)
	p.run(command(shell))
	p.event()
	ctx, leave := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.addr+"/genvm/run", bytes.NewReader(encoded(t, command("echo still here"))))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		if a, err := s.http.Do(r); err == nil {
			a.Body.Close()
			t.Error("the request was answered while its run was queued")
		}
	}()
	<-accepted
	leave()
	<-left
	release()
	p.ends(1)
	var reply msp.AttachReply
	p.ask(&msp.Request{Attach: &msp.Attach{BootID: bootID, GenvmID: 2}}, &reply)
	if !reply.Snapshot.Terminal() {
		p.ends(2)
	}
	if status, body := s.call("GET", "/genvm/2", nil); status != 200 || !strings.Contains(body, "still here") {
		t.Errorf("%d %s", status, body)
	}
}

// TestFlowEndingIsHandedOutOnce asks for one ending by many requests at once,
// some of which wait for it: exactly one gets it.
func TestFlowEndingIsHandedOutOnce(t *testing.T) {
	t.Attr("requirement", "ADMIN-29")
	s := start(t, nil)
	p := s.dial()
	shell, release := fifo(t)
	id := p.run(command(shell + "; echo out"))
	p.event()
	const asked = 16
	got := make(chan string, asked)
	ask := func(path string) {
		a, err := s.http.Get("http://" + s.addr + path)
		if err != nil {
			got <- err.Error()
			return
		}
		defer a.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(a.Body); err != nil {
			got <- err.Error()
			return
		}
		got <- b.String()
	}
	for range asked / 2 {
		go ask("/genvm/1?wait=2m")
	}
	release()
	p.ends(id)
	for range asked / 2 {
		go ask("/genvm/1")
	}
	endings := 0
	for range asked {
		switch body := <-got; {
		case strings.Contains(body, `"stdout":"out\n"`):
			endings++
		case body != `{"genvm_id":1,"status":null}`:
			t.Errorf("answered %s", body)
		}
	}
	if endings != 1 {
		t.Errorf("%d requests got the ending", endings)
	}
}
