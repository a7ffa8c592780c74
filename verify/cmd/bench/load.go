package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ticksPerSecond is USER_HZ, the unit of /proc/stat (proc_stat(5)): 100 wherever
// Go runs on Linux.
const ticksPerSecond = 100

// processes are the living children of this command, whose CPU time is not in
// any rusage yet.
type processes struct {
	mu   sync.Mutex
	live map[int]bool
}

var theseProcesses = &processes{live: map[int]bool{}}

func (p *processes) add(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[pid] = true
}

// remove is called after the wait for the process: its time is then in the
// rusage of this one's children.
func (p *processes) remove(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, pid)
}

// reading is the state of the clocks at a moment.
type reading struct {
	p         *processes
	at        time.Time
	all, ours time.Duration
}

func (p *processes) begin() (reading, error) {
	r := reading{p: p, at: time.Now()}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return r, fmt.Errorf("cannot see how busy the machine is: %w", err)
	}
	if r.all, err = busyTime(string(stat)); err != nil {
		return r, err
	}
	r.ours, err = p.time()
	return r, err
}

// end returns how many cores other processes took since begin.
func (r reading) end() (others float64, err error) {
	now, err := r.p.begin()
	if err != nil {
		return 0, err
	}
	return othersShare(now.all-r.all, now.ours-r.ours, now.at.Sub(r.at)), nil
}

// othersShare is the busy time that is not ours, in cores. The clocks tick
// apart, so that a quiet machine can come out a little below zero.
func othersShare(all, ours, elapsed time.Duration) float64 {
	return max(0, (all-ours).Seconds()/elapsed.Seconds())
}

// time is the CPU time of this process, of the children it has waited for, and
// of those that live, with theirs.
func (p *processes) time() (time.Duration, error) {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			return 0, fmt.Errorf("cannot read the time of this process: %w", err)
		}
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range p.live {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return 0, fmt.Errorf("cannot read the time of process %d: %w", pid, err)
		}
		t, err := processTime(string(stat))
		if err != nil {
			return 0, err
		}
		total += t
	}
	return total, nil
}

// busyTime reads the first line of /proc/stat: all but idle and waiting, stolen
// time included, guests not, since they are in user already.
func busyTime(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("cannot read /proc/stat: its first line is %q", line)
	}
	return ticks(fields, 1, 2, 3, 6, 7, 8) // user nice system irq softirq steal
}

// processTime reads utime, stime, cutime and cstime of /proc/PID/stat.
func processTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 15 {
		return 0, fmt.Errorf("cannot read the status line %q of a process", stat)
	}
	return ticks(fields, 11, 12, 13, 14)
}

func ticks(fields []string, which ...int) (time.Duration, error) {
	var sum int64
	for _, i := range which {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read ticks: %w", err)
		}
		sum += n
	}
	return time.Duration(sum) * (time.Second / ticksPerSecond), nil
}
