package main

import (
	"errors"

	"microvms/agentd/api"
	"microvms/client"
)

// exitRow is one row of the exit table.
type exitRow struct {
	Exit    int         `json:"exit"`
	Code    client.Kind `json:"code"`
	Meaning string      `json:"meaning"`
	Finding string      `json:"finding"`
	Hint    string      `json:"-"`
}

// exitTable is the contract of client facts, section 8.2. It is append-only: a
// row never changes its number or code.
//
// CLI-3: each failure class has its own number, distinct from 1, because a
// script must tell a bug of this command from every other failure.
//
// CLI-33: findings are headings of docs/PLATFORM.md, and hints name only what
// exists, because their reader does what they say.
var exitTable = []exitRow{
	{0, "", "done", "", ""},
	{1, client.KindUnexpected, "a bug in this command", "", "report it, with the command line and the text on stderr"},
	{2, client.KindInvalidArg, "refused locally, before any call; every parse error", "", "microvm COMMAND --help lists what each option takes"},
	{3, client.KindRetryable, "transient: the same command may succeed", "Endpoint authentication", "run the same command again"},
	{4, client.KindCredentials, "the identity is wrong or missing", "", "check the identity that the command used"},
	{5, client.KindProtocol, "the daemon refused the request on its merits", "", ""},
	{6, client.KindBuildWedged, "the image build was never scheduled", "`clientToken` is a permanent idempotency key",
		"an image in CREATING cannot be deleted: note its id and build under a new name"},
	{7, client.KindLaunchDied, "the VM ended before it ran", "`runHookPayload` arrives wrapped, not as the body", "the log group of the image tells why: /aws/lambda-microvms/IMAGE-NAME"},
	{8, client.KindWindowClosed, "the suspended window has passed", "`idlePolicy`", "the window is set at the launch: launch another VM, with a longer one"},
	{9, client.KindPlatform, "the platform failed, or the VM is not usable", "", ""},
	{10, client.KindTimeout, "a deadline of this command; the VM and the exec are untouched", "", "polling only reads: poll again"},
	{11, client.KindInterrupted, "interrupted after a launch or a start", "The build log group survives Terraform", ""},
	{12, client.KindPrecondition, "something this command needs is missing", "", "the text names what is missing or in the way"},
	{13, client.KindExecFailed, "the sandbox is fine; the command in it failed", "", ""},
}

// wireHints replace a row's hint for one wire kind.
var wireHints = map[client.WireKind]string{
	client.WireUnauthorized:    "the agent token is not the one that was installed at launch",
	client.WireAuthTokenMint:   "minting the endpoint token is part of every request; it failed, so run the same command again",
	client.WireNotFound:        "the exec was never started, its start was refused, or it was acked some time ago",
	client.WireOutputGap:       "the command wrote faster than the stream was read: let it write to a file in the VM",
	client.WireNotBootstrapped: "the VM has no token installed yet: run the same command again, or ask microvm health",
}

// spawnHint is for a start whose process could not be created. The wire calls
// that a server error, which is retryable, yet its usual cause stays.
const spawnHint = "check that the program and the working directory exist in the VM, and that PATH is set there"

// fileHints replace a row's hint for one wire kind of a file route.
var fileHints = map[client.WireKind]string{
	client.WireNotFound:            "there is no such file or folder in the VM",
	client.WireServerError:         "the daemon's text says why: a file where a folder should be stays, and a failing disk may not",
	client.WireInsufficientStorage: "the VM keeps a reserve of its disk free: remove something there, or copy less",
	client.WireTooLarge:            "the VM takes at most so much at once: copy less, or raise the daemon's limit",
}

// hintOf gives the one hint for an error of a row, empty if there is none.
func hintOf(err error, row exitRow) string {
	switch {
	case errors.Is(err, client.ErrSpawn):
		return spawnHint
	case errors.Is(err, client.ErrStdinNotRequested):
		return "it has no input: start it with microvm exec --detach --open-stdin"
	case errors.Is(err, client.ErrStdinClosed):
		return "its input has ended: exec --stdin closes it, and so does microvm stdin --eof"
	}
	// What the exec routes mean by a status is not what the file routes mean.
	var apiErr *client.APIError
	if errors.As(err, &apiErr) && (apiErr.Path == api.PathFile || apiErr.Path == api.PathTar) {
		if hint := fileHints[client.WireKindOf(err)]; hint != "" {
			return hint
		}
	}
	if hint := wireHints[client.WireKindOf(err)]; hint != "" {
		return hint
	}
	return row.Hint
}

// findingOf gives the finding that an error rests on, empty if there is none.
//
// CLI-48: a row's finding explains some of its errors, and next to another one it
// sends the reader astray.
func findingOf(err error, row exitRow) string {
	switch row.Code {
	case client.KindRetryable:
		if wire := client.WireKindOf(err); wire != client.WireAuthTokenMint && wire != client.WireNotBootstrapped {
			return ""
		}
	case client.KindInterrupted:
		return "" // it is about the end of a launch, and no command here launches
	}
	return row.Finding
}

// daemonStatus says whether a status of the daemon caused err; only then is its
// wire kind named in an envelope's data.kind.
func daemonStatus(err error) bool {
	var apiErr *client.APIError
	return errors.As(err, &apiErr) && client.WireKindOf(err) != ""
}

// exitOf gives the exit code of a kind.
func exitOf(kind client.Kind) int { return rowOf(kind).Exit }

// rowOf finds a kind's row; an unknown one is unexpected.
func rowOf(kind client.Kind) exitRow {
	for _, row := range exitTable[1:] {
		if row.Code == kind {
			return row
		}
	}
	return exitTable[1]
}
