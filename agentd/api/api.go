// Package api holds what the daemon and its clients agree on: the routes, the
// headers, the JSON shapes and the error codes of wire version 1 (wire facts,
// sections 1 to 12). Each shape is defined once, here, so that a drift between
// the two sides does not compile.
//
// Field order is the order in which the daemon emits the keys. The types have
// no behaviour beyond their encoding and work with encoding/json as well as
// with strict decoders.
package api

// ProtocolVersion is the wire protocol that the daemon publishes in its schema
// and binds in verified tunnels. The paths stay under /v1.
const ProtocolVersion = "2"

// Paths of the routes. HookPrefix is fixed by the platform; everything of the
// project's own lives under /v1.
const (
	HookPrefix = "/aws/lambda-microvms/runtime/v1"

	PathExecStart  = "/v1/exec/start"
	PathExec       = "/v1/exec/{id}"
	PathExecStream = "/v1/exec/{id}/stream"
	PathExecStdin  = "/v1/exec/{id}/stdin"
	PathExecAck    = "/v1/exec/{id}/ack"
	PathExecKill   = "/v1/exec/{id}/kill"
	PathProcs      = "/v1/procs"
	PathDiscovery  = "/v1/discovery"
	PathFile       = "/v1/fs/file"
	PathTar        = "/v1/fs/tar"
	PathHealth     = "/v1/health"
	PathSchema     = "/v1/schema"
	PathTunnel     = "/v1/tcp"
)

// The lifecycle hooks, in the order in which the schema lists them.
const (
	HookReady     = "ready"
	HookValidate  = "validate"
	HookRun       = "run"
	HookSuspend   = "suspend"
	HookResume    = "resume"
	HookTerminate = "terminate"
)

// Hooks returns the names of the lifecycle hooks, in schema order. The slice
// is fresh.
func Hooks() []string {
	return []string{HookReady, HookValidate, HookRun, HookSuspend, HookResume, HookTerminate}
}

// Header names, spelled as they go over the wire. The two health headers do
// not share a prefix (wire facts, section 6).
const (
	HeaderVersion      = "microvms-agentd-version"
	HeaderDefaultUser  = "microvms-default-user-configured"
	HeaderPowerOffExit = "microvm-poweroff-on-exit"
)

// Media types of requests and answers.
const (
	MediaJSON  = "application/json"
	MediaSSE   = "text/event-stream"
	MediaText  = "text/plain; charset=utf-8"
	MediaQuery = "application/x-www-form-urlencoded"
	MediaBytes = "application/octet-stream"
	MediaTar   = "application/x-tar"
)
