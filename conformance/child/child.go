// Package child is a stepping child process: the process that conformance tests
// let a daemon start, and that does exactly what it is told, when it is told.
// It prints given bytes, reads given numbers of bytes, forks a member that
// stays in the group or escapes, ignores SIGTERM, closes its pipes, and exits.
//
// A program that wants to be started as such a child calls [RunIfAsked] first
// thing, and names [Command] as the command of a start request. The driver
// holds a [Controller]: each child connects to its socket, says who it is, and
// then takes one line as a command and answers with one line. A child whose
// connection ends exits, so none outlives its driver.
package child

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Marker is the first argument of a program that is to be a child.
const Marker = "microvms-conformance-child"

// Command returns the command line that starts this program as a child called
// name, which connects to the socket.
func Command(socket, name string) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find the own program to start it as a child: %w", err)
	}
	return []string{program, Marker, socket, name}, nil
}

// Env is what a child's environment should hold: a program that was built with
// the race detector otherwise waits for a second before it exits.
var Env = map[string]string{"GORACE": "atexit_sleep_ms=0"}

// RunIfAsked turns the program into a child when its arguments say so; it then
// never returns. It is called before anything else, in main or in an init.
func RunIfAsked() {
	if asked, err := identify(os.Args); asked {
		if err != nil {
			fmt.Fprintf(os.Stderr, "child: %v\n", err)
			os.Exit(125)
		}
		os.Exit(0)
	}
	if len(os.Args) != 4 || os.Args[1] != Marker {
		return
	}
	if err := run(os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintf(os.Stderr, "child %s: %v\n", os.Args[3], err)
		os.Exit(125)
	}
	os.Exit(0)
}

// process is the child's own side.
type process struct {
	socket string
	name   string
}

func run(socket, name string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("cannot reach the driver: %w", err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "hello %d %s\n", os.Getpid(), name); err != nil {
		return err
	}
	p := &process{socket: socket, name: name}
	commands := bufio.NewReader(conn)
	for {
		line, err := commands.ReadString('\n')
		if err != nil {
			return nil // the driver is gone
		}
		reply, err := p.obey(strings.Fields(line))
		if err != nil {
			reply = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if _, err := io.WriteString(conn, reply+"\n"); err != nil {
			return nil
		}
	}
}

// operations holds what a child can be told. Each returns its reply.
var operations = map[string]func(p *process, args []string) (string, error){
	"write":     (*process).write,
	"read":      (*process).read,
	"available": (*process).available,
	"hungup":    (*process).hungUp,
	"pipesize":  (*process).pipeSize,
	"fork":      (*process).fork,
	"escape":    (*process).escape,
	"ignore":    (*process).ignore,
	"close":     (*process).closePipes,
	"exit":      (*process).exit,
}

func (p *process) obey(words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("empty command")
	}
	operation, ok := operations[words[0]]
	if !ok {
		return "", fmt.Errorf("unknown command %q", words[0])
	}
	return operation(p, words[1:])
}

// write puts bytes into stdout or stderr: "write stdout aGVsbG8=".
func (p *process) write(args []string) (string, error) {
	if len(args) != 2 {
		return "", errors.New("write needs a stream and its bytes in base64")
	}
	data, err := base64.StdEncoding.DecodeString(args[1])
	if err != nil {
		return "", err
	}
	out := os.Stdout
	if args[0] == "stderr" {
		out = os.Stderr
	}
	if _, err := out.Write(data); err != nil {
		return "", err
	}
	return "ok", nil
}

// read takes that many bytes from stdin, or what is left before its end:
// "read 5" is answered "ok aGVsbG8=", and "eof aGU=" when the end came first.
func (p *process) read(args []string) (string, error) {
	n, err := number(args)
	if err != nil {
		return "", err
	}
	data := make([]byte, n)
	got, err := io.ReadFull(os.Stdin, data)
	word := "ok"
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		word = "eof"
	case err != nil:
		return "", err
	}
	return word + " " + base64.StdEncoding.EncodeToString(data[:got]), nil
}

// available tells how many bytes lie in stdin.
func (p *process) available([]string) (string, error) {
	n, err := unix.IoctlGetInt(0, unix.TIOCINQ)
	if err != nil {
		return "", err
	}
	return "ok " + strconv.Itoa(n), nil
}

// hungUp tells, as 1 or 0, whether the write end of stdin is closed. It reads
// nothing.
func (p *process) hungUp([]string) (string, error) {
	fds := []unix.PollFd{{Fd: 0}} // POLLHUP is told without being asked for
	if _, err := unix.Poll(fds, 0); err != nil {
		return "", err
	}
	if fds[0].Revents&unix.POLLHUP != 0 {
		return "ok 1", nil
	}
	return "ok 0", nil
}

// pipeSize sets how many bytes the stdin pipe holds, and answers what the
// kernel made of it.
func (p *process) pipeSize(args []string) (string, error) {
	n, err := number(args)
	if err != nil {
		return "", err
	}
	n, err = unix.FcntlInt(0, unix.F_SETPIPE_SZ, n)
	if err != nil {
		return "", err
	}
	return "ok " + strconv.Itoa(n), nil
}

// fork starts a member: a child of this process, in its group, that holds the
// same output pipes and connects to the same driver: "fork NAME".
func (p *process) fork(args []string) (string, error) {
	if len(args) != 1 {
		return "", errors.New("fork needs a name")
	}
	argv, err := Command(p.socket, args[0])
	if err != nil {
		return "", err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = os.Environ()
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return "", err
	}
	go func() { _ = cmd.Wait() }() // its status is nobody's business; its zombie must not stay
	return "ok " + strconv.Itoa(cmd.Process.Pid), nil
}

// escape moves the process into a session, and so a group, of its own.
func (p *process) escape([]string) (string, error) {
	if _, err := syscall.Setsid(); err != nil {
		return "", err
	}
	return "ok", nil
}

// ignore makes the process deaf to SIGTERM.
func (p *process) ignore([]string) (string, error) {
	signal.Ignore(syscall.SIGTERM)
	return "ok", nil
}

// closePipes closes stdout and stderr.
func (p *process) closePipes([]string) (string, error) {
	if err := errors.Join(os.Stdout.Close(), os.Stderr.Close()); err != nil {
		return "", err
	}
	return "ok", nil
}

// exit ends the process with a code: "exit 3". The driver sees the end of the
// connection.
func (p *process) exit(args []string) (string, error) {
	code, err := number(args)
	if err != nil {
		return "", err
	}
	os.Exit(code)
	return "", nil
}

func number(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errors.New("the command needs one number")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number from 0", args[0])
	}
	return n, nil
}
