package httpapi

import (
	"net/http"

	"microvms/agentd/api"
)

// coded is a status that comes with an error code.
func coded(c api.Code, meaning string) statusDoc { return statusDoc{c.Status(), c, meaning} }

var unknownExec = coded(api.UnknownExec, "no exec is registered under this id, or it was collected after its ack")

func hookDoc(name string) routeDoc {
	d := routeDoc{
		summary: "lifecycle hook; recorded in the hook log and acknowledged",
		statuses: []statusDoc{
			{http.StatusOK, "", "acknowledged"},
			{http.StatusRequestTimeout, "", "the body did not arrive in time; the connection closes"},
			{http.StatusRequestEntityTooLarge, "", "the body is too large; the connection closes"},
		},
	}
	if name == api.HookRun {
		d.summary, d.request = "one-shot bootstrap: token, launch environment and identity", api.RunHookEnvelope{}
		d.statuses[0].meaning = "the token was installed, or is the installed one"
		d.statuses = append(d.statuses,
			statusDoc{http.StatusBadRequest, "", "the body or the payload in it is malformed; nothing was installed"},
			statusDoc{http.StatusConflict, "", "another token is installed; nothing was changed"})
	}
	return d
}

var startDoc = routeDoc{
	summary: "start a command under an id that the caller minted; a retry starts no second one",
	request: api.StartRequest{}, response: api.StartResponse{},
	statuses: []statusDoc{
		{http.StatusOK, "", "started, now or by an earlier request with this id"},
		coded(api.MalformedRequest, "the body is not a valid start request"),
		coded(api.UnknownUser, "the user does not resolve; nothing was spawned"),
		coded(api.UnknownGroup, "the group does not resolve; nothing was spawned"),
		coded(api.UnknownShell, "the shell does not resolve; nothing was spawned"),
		coded(api.PowerOffUnavailable, "poweroff_on_exit is true and the daemon cannot power off; nothing was spawned"),
		{http.StatusRequestTimeout, "", "the request body stalled"},
		coded(api.SpawnFailed, "the child could not be spawned; nothing was registered"),
	},
}

var pollDoc = routeDoc{
	summary: "phase and, once exited and until acked, the outcome; changes nothing", response: api.PollResponse{},
	statuses: []statusDoc{{http.StatusOK, "", "the phase, with the outcome in phase exited"}, unknownExec},
}

var streamDoc = routeDoc{
	summary: "follow output from a byte offset as server-sent events",
	query:   api.StreamQuery{}, media: api.MediaSSE,
	note: "resume at a chunk's offset plus its decoded length; a body without an exit event is a broken connection",
	statuses: []statusDoc{
		{http.StatusOK, "", "the stream, from the offset on"},
		coded(api.MalformedRequest, "offset is not a non-negative integer"),
		unknownExec,
	},
	events: []eventDoc{
		{api.EventOutput, api.OutputEvent{}, "a run of bytes, base64"},
		{api.EventGap, api.GapEvent{}, "the bytes in [from, to) are lost to this reader"},
		{api.EventExit, api.ExitEvent{}, "the exec ended; the body ends after it"},
	},
}

var stdinDoc = routeDoc{
	summary: "write to a child's stdin, end it, or both in this order",
	request: api.StdinRequest{}, response: api.StdinResponse{},
	statuses: []statusDoc{
		{http.StatusOK, "", "the bytes that the child's pipe took"},
		coded(api.MalformedRequest, "the body, its base64 or its signal is not valid"),
		unknownExec,
		{http.StatusRequestTimeout, "", "the request body stalled"},
		coded(api.StdinWriteTimeout, "the child did not read in time; some bytes may be written"),
		coded(api.StdinNotRequested, "the exec was started without stdin"),
		coded(api.StdinClosed, "stdin has ended or nothing reads it"),
		coded(api.StdinWriteTooLarge, "the decoded bytes exceed limits.max_stdin_write_bytes"),
		coded(api.StdinWriteFailed, "the pipe failed otherwise"),
	},
}

var ackDoc = routeDoc{
	summary: "release the outcome, delivered here for the last time", response: api.PollResponse{},
	statuses: []statusDoc{
		{http.StatusOK, "", "the outcome; the exec is kept for limits.exec_ttl_secs more"},
		unknownExec,
		coded(api.StillRunning, "the exec has not exited"),
		coded(api.AlreadyAcked, "an earlier ack released the outcome"),
	},
}

var killDoc = routeDoc{
	summary: "SIGTERM, then SIGKILL after limits.kill_grace_secs, to the exec's whole group", response: api.KillResponse{},
	statuses: []statusDoc{{http.StatusOK, "", "done; killed is false when nothing was left to signal"}, unknownExec},
}

var procsDoc = routeDoc{
	summary: "every registered exec with the live pids of its group", response: api.ProcsResponse{},
	statuses: []statusDoc{{http.StatusOK, "", "one entry for each registered exec"}},
}

var healthDoc = routeDoc{
	summary: "version, bootstrap, load and hooks of the daemon", response: api.Health{},
	statuses: []statusDoc{{http.StatusOK, "", "always"}},
}

var schemaDoc = routeDoc{
	summary: "this document", media: api.MediaJSON, note: "this document",
	statuses: []statusDoc{{http.StatusOK, "", "always"}},
}
