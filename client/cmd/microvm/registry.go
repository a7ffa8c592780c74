package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

const description = "Run commands inside MicroVMs.\n\n" +
	"Results go to stdout, all else to stderr. With --json stdout holds exactly one envelope; a failure's code and exit " +
	"code are stable. MICROVM_ENDPOINT and MICROVM_AGENT_TOKEN stand in for --endpoint and --agent-token."

// runner is a parsed command.
type runner interface {
	run(ctx context.Context, a *app) (*result, error)
}

// root is the command tree, from which the parser, help and completion come.
type root struct {
	JSON  bool `name:"json" help:"Write one JSON envelope to stdout."`
	Dense bool `help:"Write one short line; with --json, compact JSON."`
	Quiet bool `short:"q" help:"No progress on stderr. Warnings stay."`

	Exec       execCommand       `cmd:"" help:"Run a command and print its output."`
	Stdin      stdinCommand      `cmd:"" help:"Write to the input of a running command."`
	Kill       killCommand       `cmd:"" help:"End a command and its process group."`
	Ps         psCommand         `cmd:"" help:"List the process groups of all commands."`
	Ack        ackCommand        `cmd:"" help:"Take the result of a finished command; the daemon then forgets it."`
	Cp         copyCommand       `cmd:"" help:"Copy files and folders into and out of the VM."`
	Tunnel     tunnelCommand     `cmd:"" help:"Forward a local port to a port in the VM."`
	Health     healthCommand     `cmd:"" help:"Show the daemon's health."`
	Cost       costCommand       `cmd:"" help:"Estimate what a VM costs; compare running with suspended."`
	Manager    managerCommand    `cmd:"" help:"Run executors on a host through agentd manager."`
	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`

	kong.Plugins // see newRoot
}

// versionFlag is the global flag --version.
type versionFlag struct {
	Version kong.VersionFlag `help:"Print the version and exit."`
}

// newRoot is the tree for the arguments. `manager run` has a --version of its
// own, the executor's, beside which the global one does not exist.
func newRoot(args []string) *root {
	if w := words(args); len(w) > 1 && w[0] == "manager" && w[1] == "run" {
		return &root{}
	}
	return &root{Plugins: kong.Plugins{&versionFlag{}}}
}

// attach is the group of flags that name a daemon.
type attach struct {
	Endpoint   string `placeholder:"URL" help:"The daemon's URL or host (else $$MICROVM_ENDPOINT). A bare host means https."`
	AgentToken string `placeholder:"TOKEN" help:"The daemon's token. Better set $$MICROVM_AGENT_TOKEN: arguments are visible to others."`
}

// entry documents one command beyond its flags.
type entry struct {
	Name         string
	ResponseType string
	ResponseKeys []string
	Example      string
}

// registry has one entry for each command of the tree, in its order.
//
// CLI-26, MCLIENT-31: help, completion and scripts are written from it.
var registry = []entry{
	{"exec", "microvm.exec", []string{"execId", "exitCode", "stdout", "stderr", "truncated", "phase"},
		"microvm exec 'make test 2>&1 | tail'        # one word: a script of /bin/sh\n" +
			"microvm exec -- ls -l '/a dir'              # after --: an argument vector, no shell\n" +
			"microvm exec --user app --shell bash 'cd; make'\n" +
			"microvm exec --stream --json 'make test'    # a JSON line for each event, then the envelope\n" +
			"microvm exec -i -- wc -c < file             # feed it a file\n" +
			"microvm exec --detach 'sleep 600'           # print the exec id and leave\n" +
			"microvm exec --detach --open-stdin 'sort'   # the same, and feed it later: microvm stdin --help\n" +
			"microvm exec --poll x-0123456789abcdef      # read its record\n\n" +
			"Exit code 0 only if the command exited 0; 13 if it did not, unless --propagate-exit hands on its own code " +
			"(124 deadline, 127 not found, 128+n signal).\n" +
			"The first Ctrl-C detaches: the command goes on, exit code 11. A second one within a second kills it."},
	{"stdin", "microvm.stdin", []string{"execId", "written", "eof"},
		"id=$(microvm exec --detach --open-stdin 'sort > sorted')\n" +
			"printf 'b\\na\\n' | microvm stdin $id --data -\n" +
			"microvm stdin $id --data c --eof            # the last of it; sort ends\n\n" +
			"The input stays open until --eof, whatever was written. An exec that was started without --open-stdin has none " +
			"to write to (exit code 5), and one that was fed by exec --stdin has a closed one."},
	{"kill", "microvm.kill", []string{"execId", "killed"}, "microvm kill x-0123456789abcdef"},
	{"ps", "microvm.ps", []string{"procs"}, "microvm ps"},
	{"ack", "microvm.exec", []string{"execId", "phase", "exitCode", "stdout", "stderr", "truncated"}, "microvm ack x-0123456789abcdef"},
	{"cp", "microvm.copy", []string{"direction", "bytes", "local", "remote", "tar", "skipped"},
		"microvm cp main.go vm:/srv/app/             # into a folder of the VM\n" +
			"microvm cp vm:/var/log/app.log .            # and out of one\n" +
			"microvm cp --exclude .git/ . vm:/srv/app    # what is in a folder\n" +
			"microvm cp vm:/srv/app/. build              # only what is in it\n" +
			"tar c . | microvm cp --tar - vm:/srv/app    # an archive, extracted in the VM\n" +
			"microvm cp vm:/etc/hosts - | grep localhost\n\n" +
			"One side is in the VM: vm: and an absolute path. A local file whose name begins so is written as ./vm:name.\n" +
			"A folder goes into a destination that exists under its own name, else it becomes the destination; with /. at its end " +
			"only its content goes.\n" +
			"Folders keep modes, without setuid, setgid and sticky; the daemon also takes group and other write away. The owner in the VM is root; times " +
			"are not kept. A file out of the VM has the mode of the file that it replaces, or that of a new file: the wire does not tell its own.\n" +
			"Links are copied as links. One that leads out of its folder is refused on the way in, and skipped with a warning on the way out, as are devices and pipes.\n" +
			"--exclude takes *, ? and [...]: without a slash it matches a name at any depth, with one a path from the folder on, with one at the end only folders.\n" +
			"A copy of a file out of the VM is there whole or not at all. Into the VM it is written in place: one that breaks off leaves no part of it, or a part, and what was there before is gone. A folder that breaks off leaves what was copied until then."},
	{"tunnel", "microvm.tunnel", []string{"local", "port", "identity", "connections", "failed"},
		"microvm tunnel 8080                         # localhost:8080 is port 8080 of the VM\n" +
			"microvm tunnel 9999:8080                    # another local port\n" +
			"microvm tunnel 0:8080                       # any free one; the first line says which\n" +
			"microvm tunnel --identity 5432              # only to the VM that was launched, end to end\n\n" +
			"Each local connection has its own tunnel to the port on the VM's loopback. It runs until Ctrl-C, which is no failure. A connection that fails is a " +
			"warning, and is reset at its local end, so that a part does not pass for the whole.\n" +
			"The first side to end closes the connection in both directions: there is no half-close."},
	{"health", "microvm.health", []string{"version", "bootstrapped", "identityDegraded", "identityRepaired", "diskAvailableBytes",
		"diskUnderPressure", "busy", "execs"}, "microvm health --endpoint http://127.0.0.1:9000"},
	{"cost", "microvm.cost", []string{"report", "comparison", "budget"},
		"microvm cost --running-sec 3600 --suspended-sec 86400     # a plan\n" +
			"microvm cost --running-sec 3600 --max-cost 0.50 --on-breach abort\n" +
			"microvm cost --compare --hold-sec 1800                     # run on, or suspend?\n" +
			"microvm cost --compare --html comparison.html              # the same, with a chart\n\n" +
			"No call is made. All figures are estimates from the rates of us-east-1 that this command was built with; a total that " +
			"leaves out what has no price says \"at least\".\n" +
			"A plan is over --max-cost when what is priced is over it; --on-breach abort then exits 12."},
	{"manager run", "microvm.manager.run", runKeys,
		"microvm manager run --socket /tmp/manager.sock --version demo -- stdout=hello   # words after -- go to the executor\n" +
			"microvm manager run --major 0 --deadline 90s --calldata @call.bin\n" +
			"microvm manager run -f request.yaml --token order-66                           # keys as on the wire\n" +
			"microvm manager run --detach --version demo                                    # print the run's id and leave\n\n" +
			"Prints what the run wrote to stdout and stderr once it has ended, and its lifecycle on stderr; --debug-mode disabled keeps no output.\n" +
			"Exit code 0 only if the executor exited 0; 13 for every other end of a process (cancelled, deadline and shutdown included); " +
			"12 if it failed to start, so that no process was created. --propagate-exit hands on the executor's own code.\n" +
			"The first Ctrl-C leaves: the run goes on, exit code 11. A second one within a second ends it.\n" +
			"A lost connection is made again and the run followed further. After a restart of the manager the run is lost: exit code 9.\n\n" +
			"A request file is YAML or JSON over the defaults of the flags, such as:\n\n" +
			"  selector: {kind: version, version: v0.3.0}\n" +
			"  deadline: 1.5m\n" +
			"  calldata: {method: transfer, args: [0x00000000000000000000000000000000000000aa, 10]}\n" +
			"  message: {chain_id: 61999, value: 0, is_init: true}"},
	{"manager attach", "microvm.manager.attach", runKeys,
		"microvm manager attach 00f1e2d3c4b5a697/12             # to its end; print its output; it stays with the manager\n" +
			"microvm manager attach 12 --no-wait                    # what is it doing?\n\n" +
			"Exit codes are those of microvm manager run; --no-wait exits 0 whatever the run does. Without --ack the run stays known, for others to read."},
	{"manager cancel", "microvm.manager.cancel", []string{"runId"}, "microvm manager cancel 00f1e2d3c4b5a697/12\n\n" +
		"It does not wait for the end, and does nothing to a run that has ended."},
	{"manager ack", "microvm.manager.ack", []string{"runId"}, "microvm manager ack 00f1e2d3c4b5a697/12\n\n" +
		"Unacked runs are dropped some minutes after their end, 5 unless the manager was told otherwise."},
	{"manager artifact", "microvm.manager.artifact", []string{"runId", "field", "totalLen", "offset", "bytes", "text", "lossy"},
		"microvm manager artifact 12 genvm_log | jq .\n" +
			"microvm manager artifact 12 stdout --output out.txt\n" +
			"microvm manager artifact 12 stdout --offset 1000 --max-len 100"},
	{"manager status", "microvm.manager.status", []string{"llmModule", "webModule", "permits", "runs"}, "microvm manager status --socket /tmp/manager.sock"},
	{"completion", "microvm.completion", []string{"shell", "script"}, "source <(microvm completion bash)"},
}

var runKeys = []string{"runId", "token", "phase", "cause", "exitCode", "finishedAt", "version", "stdout", "stderr", "log", "consumedResult", "metrics", "acked", "lossy", "outputLost"}

// example is the text that a command's help ends with.
func example(name string) string {
	for _, e := range registry {
		if e.Name == name {
			return "Examples:\n\n  " + strings.ReplaceAll(e.Example, "\n", "\n  ")
		}
	}
	panic("no registry entry for command " + name)
}

func (*execCommand) Help() string       { return example("exec") }
func (*stdinCommand) Help() string      { return example("stdin") }
func (*killCommand) Help() string       { return example("kill") }
func (*psCommand) Help() string         { return example("ps") }
func (*ackCommand) Help() string        { return example("ack") }
func (*copyCommand) Help() string       { return example("cp") }
func (*tunnelCommand) Help() string     { return example("tunnel") }
func (*healthCommand) Help() string     { return example("health") }
func (*costCommand) Help() string       { return example("cost") }
func (*completionCommand) Help() string { return example("completion") }

func (*managerRunCommand) Help() string      { return example("manager run") }
func (*managerAttachCommand) Help() string   { return example("manager attach") }
func (*managerCancelCommand) Help() string   { return example("manager cancel") }
func (*managerAckCommand) Help() string      { return example("manager ack") }
func (*managerArtifactCommand) Help() string { return example("manager artifact") }
func (*managerStatusCommand) Help() string   { return example("manager status") }

// Help says what the group is about.
func (*managerCommand) Help() string {
	return "A manager runs executors on a host and tells how each ended. Start one with agentd manager; it asks for no credential. " +
		"The commands find it by --socket, --url or MICROVM_MANAGER. A run is named BOOT/NUMBER: numbers begin anew with each start of the manager."
}

// version is stamped by the build.
var version = "dev"

// versionText is the version and the commit that the toolchain recorded.
func versionText() string {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = fmt.Sprintf(" (commit %s)", s.Value[:min(len(s.Value), 12)])
			}
		}
	}
	return "microvm " + version + commit
}
