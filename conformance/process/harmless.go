package process

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startHarmless starts the daemon without CAP_SYS_BOOT, so that no request of a
// test can power this machine off, whatever the daemon makes of it. The
// bounding set belongs to a thread and is inherited by what that thread starts,
// so one thread gives the capability up, starts the daemon and then waits for
// its end: the daemon's parent-death signal hangs on that thread too.
func startHarmless(cmd *exec.Cmd, ended <-chan struct{}) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := giveUpBoot()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			<-ended
		}
	}()
	return <-started
}

// giveUpBoot removes CAP_SYS_BOOT from the thread's bounding set. A thread that
// may not do so is harmless only if it has not got the capability to pass on.
func giveUpBoot() error {
	err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_BOOT, 0, 0, 0)
	if err == nil {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if getErr := unix.Capget(&header, &data[0]); getErr == nil && data[0].Permitted&(1<<unix.CAP_SYS_BOOT) == 0 {
		return nil
	}
	return fmt.Errorf("cannot take the power to end this machine from the daemon: %w", err)
}
