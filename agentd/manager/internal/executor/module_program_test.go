package executor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// moduleProgram is a module's program by the contract of Modules: it answers
// each line of a run with its name, the run and the line, and counts them. kind
// says how it misbehaves: "good", "silent" (never ready), "ends" (before it is
// ready), "deaf" (it takes no runs), "stubborn" (it outlives its control
// socket), "mute" (it reports no run).
func moduleProgram(kind string) int {
	config, err := io.ReadAll(os.Stdin)
	if err != nil || kind == "ends" || os.Args[len(os.Args)-1] != "--control-fd=3" {
		return 1
	}
	f := os.NewFile(3, "control")
	conn, err := net.FileConn(f)
	if err != nil {
		return 1
	}
	f.Close()
	control := conn.(*net.UnixConn)
	if kind != "silent" {
		fmt.Fprintf(control, `{"ready":true,"metrics":%v}`, kind == "good")
	}
	if kind == "deaf" || kind == "stubborn" {
		select {}
	}
	buf, rights := make([]byte, 65536), make([]byte, 64)
	for {
		n, k, _, _, err := control.ReadMsgUnix(buf, rights)
		if err != nil || n == 0 {
			return 0
		}
		var about struct {
			Run  uint64
			TxID any `json:"tx_id"`
		}
		messages, parseErr := unix.ParseSocketControlMessage(rights[:k])
		if err := json.Unmarshal(buf[:n], &about); err != nil || parseErr != nil || len(messages) != 1 {
			return 1
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			return 1
		}
		go func() {
			f := os.NewFile(uintptr(fds[0]), "run")
			defer f.Close()
			lines := 0
			for in := bufio.NewScanner(f); in.Scan(); lines++ {
				fmt.Fprintf(f, "%s %s %d %v %s\n", os.Args[1], config, about.Run, about.TxID, in.Text())
			}
			if kind == "mute" {
				return
			}
			fmt.Fprintf(control, `{"run":%d,"metrics":{"lines":%d,"seconds":1.5}}`, about.Run, lines)
		}()
	}
}
