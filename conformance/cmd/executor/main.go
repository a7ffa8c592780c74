// Command executor is a demonstration executor: it stands where the real one
// does, takes the argument list that a manager gives to an executor, and does
// what its extra arguments say, step by step. So a manager can be tried, and
// tested, with nothing else installed:
//
//	go build -o /tmp/executors/demo/bin/genvm ./conformance/cmd/executor
//	agentd manager --socket /tmp/manager.sock --executors /tmp/executors
//	microvm manager run --socket /tmp/manager.sock --version demo --debug-mode safe \
//	    --extra-arg stdout=hello --extra-arg exit=3
//
// Its argument list is the manager's (manager facts, section 4.5):
//
//	executor --log-fd=N run [STEP…] [--sync] --host H --permissions P --genvm-id=ID
//	    --debug-mode MODE --host fd://M [--module-llm=fd://A --module-web=fd://B]
//
// The steps are taken in their order; "executor --help" lists them. Before the
// first step, unless that is stdin=later, it reads its standard input to the end. After
// the last one, unless a result was sent or result=none was a step, it sends
// the smallest valid result to host 1, waits for the answer, and exits with
// code 0. The same steps can be sent one a line over a control socket
// (control=SOCKET,NAME), in the form that package conformance/child speaks.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Exit codes of its own, beside those that a step asks for.
const (
	exitUsage = 2   // the argument list is none that a manager writes
	exitStep  = 125 // a step failed; the reason is on standard error
)

const usage = `executor is a demonstration executor for agentd manager.

Usage: executor --log-fd=N run [STEP...] [--sync] --host H --permissions P
           --genvm-id=ID --debug-mode MODE --host fd://M
           [--module-llm=fd://A --module-web=fd://B]

A step is WORD or WORD=VALUE. Steps are taken in order:

  stdout=TEXT, stderr=TEXT       print TEXT
  stdout-bytes=N, stderr-bytes=N print N bytes, the letters a to z in a circle
  stdout-hex=HEX                 print the bytes
  log=LINE                       write LINE and a line end to the log descriptor
  log-raw=HEX                    write the bytes to the log descriptor
  log-bytes=N                    write N bytes to the log descriptor, letters in a circle
  log-lines=N                    write N records {"n":1,"level":"debug"} ...
  stdin=later                    as the first step: do not read standard input
  stdin=read                     read standard input to its end now
  stdin=print                    print what was read, in hexadecimal
  result=HEX                     send consume_result with this blob, await the answer
  result-bytes=N                 the same with N zero bytes
  result=none                    send no result at the end
  claim=N                        announce a result of N bytes and send none of them
  raw=HEX                        write bytes to host 1
  recv=N                         read N bytes from host 1, print them in hexadecimal
  resolve=HEX                    send method 7 with 22 bytes, print the answer
  nested=HEX                     send run_nested with this envelope, print the answer
  host1-eof                      wait until the manager ends host 1
  dial                           connect to host 0 and send its hello data
  argv, fds, group, cwd          print the argument list (one a line), the open
                                 descriptors with what they are, the process
                                 group, the working directory
  env=NAME                       print the variable
  module=llm|web,TEXT            send TEXT to the module, print one line of answer
  fork=SOCKET,NAME               start a member of the group with the same outputs, log
                                 included, that obeys the control socket
  fork-escaped=SOCKET,NAME       the same in a session of its own
  ignore                         be deaf to SIGTERM
  close=stdout|stderr|log|host1  close the descriptor
  control=SOCKET,NAME            say hello on the unix socket and take steps from it,
                                 one a line, each answered by a line, to its end
  gate=SOCKET,NAME               say hello, wait for one line, go on
  hang                           wait for a signal
  signal=N                       send the signal to itself
  exit=CODE                      exit now, without a result
`

func main() {
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for its exit.
func run(argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(argv) > 1 && (argv[1] == "--help" || argv[1] == "-h") {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if len(argv) == 5 && argv[1] == memberWord {
		return member(argv[2], argv[3], argv[4], stderr)
	}
	opt, err := parse(argv)
	if err != nil {
		fmt.Fprintf(stderr, "executor: %v\nexecutor: try --help\n", err)
		return exitUsage
	}
	e := &executor{options: opt, argv: argv, stdin: stdin, stdout: stdout, stderr: stderr}
	err = e.perform()
	var exit exitError
	switch {
	case errors.As(err, &exit):
		return int(exit)
	case err != nil:
		fmt.Fprintf(stderr, "executor: %v\n", err)
		return exitStep
	}
	return 0
}

// exitError ends the steps with an exit code.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit with code %d", int(e)) }

// perform reads standard input, takes the steps and sends the last result.
func (e *executor) perform() error {
	steps := e.steps
	if len(steps) > 0 && steps[0] == "stdin=later" {
		steps = steps[1:]
	} else if err := e.readStdin(); err != nil {
		return err
	}
	for _, s := range steps {
		if _, err := e.take(s); err != nil {
			var exit exitError
			if errors.As(err, &exit) {
				return err
			}
			word, _, _ := strings.Cut(s, "=")
			return fmt.Errorf("step %q: %w", word, err)
		}
	}
	if e.answered || e.host1 == nil {
		return nil
	}
	return e.consumeResult(smallestResult)
}
