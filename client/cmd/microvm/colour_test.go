package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudo-terminal: what is written to tty is read from
// control.
func openTerminal(t *testing.T) (control, tty *os.File) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { control.Close() })
	if err := unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("cannot open the pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	return control, tty
}

// Colour is for terminals that want it, and never for anything else.
func TestColour(t *testing.T) {
	t.Attr("requirement", "CLI-25")
	_, tty := openTerminal(t)
	for _, c := range []struct {
		env    map[string]string
		colour bool
	}{
		{nil, true},
		{map[string]string{"TERM": "xterm"}, true},
		{map[string]string{"NO_COLOR": "1"}, false},
		{map[string]string{"CLICOLOR": "0"}, false},
		{map[string]string{"TERM": "dumb"}, false},
	} {
		a := newApp(nil, &bytes.Buffer{}, tty, func(name string) string { return c.env[name] })
		if got := strings.Contains(a.paint("error"), "\x1b["); got != c.colour {
			t.Errorf("%v: colour %t, want %t", c.env, got, c.colour)
		}
	}
	a := newApp(nil, tty, &bytes.Buffer{}, func(string) string { return "" })
	if got := a.paint("error"); got != "error" {
		t.Errorf("stderr is no terminal, and %q is painted", got)
	}
}
