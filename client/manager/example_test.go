package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"microvms/agentd/api/msp"
	"microvms/client/manager"
)

// A run from the request to the ack. The session survives lost connections; a
// restart of the manager it reports.
func ExampleSession_Run() {
	session, err := manager.NewSession("/run/manager.sock")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	ctx := context.Background()

	token := "order-66"
	request := msp.NewRunRequest()
	request.Selector = msp.Selector{IsVersion: true, Version: "v0.3.0"}
	request.Timestamp = msp.At(time.Now())
	request.Host, request.HostData, request.IsSync = "unix:///run/host.sock", "{}", true
	request.DebugMode, request.Token = msp.DebugSafe, &token

	run, err := session.Run(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	end, err := run.Wait(ctx)
	switch {
	case errors.Is(err, manager.ErrRestarted):
		log.Fatal("the manager went down with the run: ", err)
	case err != nil:
		log.Fatal(err)
	case end.FailedToStart != nil:
		log.Print("no process was created: ", end.FailedToStart.Error)
	default:
		io.Copy(os.Stdout, run.Open(ctx, msp.Stdout))
	}
	if err := run.Ack(ctx); err != nil {
		log.Print(err)
	}
}

// The events of a run, one by one.
func ExampleRun_Next() {
	ctx := context.Background()
	c, err := manager.Dial(ctx, "127.0.0.1:3999")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	run, err := c.Attach(ctx, manager.RunID{Boot: c.BootID(), Number: 12})
	if err != nil {
		log.Fatal(err)
	}
	for {
		event, err := run.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Kind())
	}
}

// Requests may be written in YAML or JSON.
func ExampleReadRequest() {
	request := msp.NewRunRequest()
	err := manager.ReadRequest([]byte(`
selector: {kind: major, major: 0}
deadline: 1.5m
calldata: {method: transfer, args: [10]}
`), request)
	fmt.Println(request.Deadline, len(request.Calldata), err)
	// Output: 90000ms 24 <nil>
}

// How busy a manager is.
func ExampleReadStatus() {
	status, err := manager.ReadStatus(context.Background(), "/run/manager.sock")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d permits are free, %d runs are known\n", status.Permits.Free, status.Permits.Total, len(status.Runs))
}
