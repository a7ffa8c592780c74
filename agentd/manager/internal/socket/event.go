package socket

import (
	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/runs"
)

// told encodes what tells of a run: an event of its own, or the reply to an
// attach.
func told(i item) ([]byte, error) {
	ev := wire(i.event)
	if i.request != 0 {
		return msp.Message(msp.Header{Method: msp.MethodAttach, Request: i.request}, msp.AttachReply{Snapshot: ev})
	}
	return msp.Message(msp.Header{Method: msp.MethodEvent}, ev)
}

// wire is the event as clients know it (manager facts, section 4.2).
func wire(ev *runs.Event) msp.Event {
	id := uint64(ev.ID)
	switch ev.Kind {
	case runs.EventStarted:
		return msp.Event{Started: &msp.Lifecycle{GenvmID: id, Token: ev.Token}}
	case runs.EventFailedToStart:
		return msp.Event{FailedToStart: &msp.FailedToStart{GenvmID: id, Token: ev.Token, Error: ev.Error}}
	case runs.EventFinished:
		f := ev.Finished
		return msp.Event{Finished: &msp.Finished{
			GenvmID: id, Token: ev.Token,
			Cause: msp.Cause(f.Cause.String()), ExitCode: f.ExitCode,
			Consumed: f.Report.Consumed, Metrics: f.Report.Metrics, FinishedAt: msp.At(f.FinishedAt),
			VersionMajor: f.Report.VersionMajor, VersionMinor: f.Report.VersionMinor,
			Sizes: msp.ArtifactSizes{Stdout: f.Sizes[0], Stderr: f.Sizes[1], GenvmLog: f.Sizes[2]},
		}}
	}
	return msp.Event{Queued: &msp.Lifecycle{GenvmID: id, Token: ev.Token}}
}
