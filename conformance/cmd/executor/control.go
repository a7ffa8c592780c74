package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// memberWord is the first argument of a forked member.
const memberWord = "member"

// greet connects to a control socket and says hello in the form of package
// conformance/child: "hello PID NAME".
func greet(socket, name string) (net.Conn, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "hello %d %s\n", os.Getpid(), name); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func socketAndName(v string) (socket, name string, err error) {
	i := strings.LastIndexByte(v, ',')
	if i <= 0 || i == len(v)-1 {
		return "", "", fmt.Errorf("%q is not SOCKET,NAME", v)
	}
	return v[:i], v[i+1:], nil
}

// control takes steps from a socket until its end.
func (e *executor) control(v string) (string, error) {
	socket, name, err := socketAndName(v)
	if err != nil {
		return "", err
	}
	conn, err := greet(socket, name)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return "", e.obey(conn)
}

func (e *executor) obey(conn net.Conn) error {
	commands := bufio.NewReader(conn)
	for {
		line, err := commands.ReadString('\n')
		if err != nil {
			return nil //nolint:nilerr // the driver let go
		}
		reply, err := e.take(strings.TrimSuffix(line, "\n"))
		var exit exitError
		switch {
		case errors.As(err, &exit):
			return err
		case err != nil:
			reply = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		default:
			reply = strings.TrimSuffix("ok "+reply, " ")
		}
		if _, err := io.WriteString(conn, reply+"\n"); err != nil {
			return nil //nolint:nilerr // likewise
		}
	}
}

// gate says hello and waits for one line, or the socket's end.
func (e *executor) gate(v string) (string, error) {
	socket, name, err := socketAndName(v)
	if err != nil {
		return "", err
	}
	conn, err := greet(socket, name)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, err = bufio.NewReader(conn).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return "", err
}

// fork starts a member that holds the outputs and the log descriptor. It ends
// with its control socket, so none outlives its driver.
func (e *executor) fork(v string, escaped bool) (string, error) {
	socket, name, err := socketAndName(v)
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(self, memberWord, socket, name, "3")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if e.log != nil {
		cmd.ExtraFiles = []*os.File{e.log}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: escaped}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	go func() { _ = cmd.Wait() }() // its zombie must not stay
	return strconv.Itoa(cmd.Process.Pid), nil
}

// member is the whole life of a forked one.
func member(socket, name, log string, stderr io.Writer) int {
	e := &executor{stdout: os.Stdout, stderr: stderr}
	err := open(map[**os.File]string{&e.log: log})
	if err == nil {
		_, err = e.control(socket + "," + name)
	}
	var exit exitError
	if errors.As(err, &exit) {
		return int(exit)
	}
	if err != nil {
		return exitStep
	}
	return 0
}
