package execution

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// helper is what the test binary does when a test starts it as a child.
func helper(verb string) int {
	switch verb {
	case "descriptors":
		return reportSelf()
	case "score":
		score, err := os.ReadFile("/proc/self/oom_score_adj")
		fmt.Print(string(score))
		return boolCode(err == nil)
	case "headless":
		return endLeaderThread()
	case "daemon":
		return daemonOfOne()
	case "pidns":
		return insideNamespace(os.Getenv("EXECUTION_CASE"))
	}
	fmt.Fprintf(os.Stderr, "unknown verb %q\n", verb)
	return 64
}

func init() {
	if os.Getenv("EXECUTION_HELPER") == "headless" {
		runtime.LockOSThread() // the main goroutine stays on the leader's thread
	}
}

// endLeaderThread ends the thread that is the process's leader, and leaves the
// others running.
func endLeaderThread() int {
	go func() {
		fmt.Println("headless")
		select {}
	}()
	signal.Reset() // SIGTERM ends the process as it would any other
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	return 1
}

func boolCode(ok bool) int {
	if ok {
		return 0
	}
	return 1
}

// reportSelf prints what the process was given.
func reportSelf() int {
	var fds []string
	for fd := range 256 {
		// What the runtime itself opened is close-on-exec; what was inherited is not.
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, strconv.Itoa(fd))
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return 1
	}
	fmt.Printf("fds %s\ngroup %d of %d\ndir %s\nenv %d\n", strings.Join(fds, " "), unix.Getpgrp(), os.Getpid(), dir, len(os.Environ()))
	return 0
}
