package hostile

import "context"

// Usage is what a process holds. A count of -1 could not be read.
type Usage struct {
	Descriptors int
	Children    int // zombies included
	Threads     int
	Peak        int64 // resident bytes: the peak since [MarkPeak], or the present where that cannot be read
}

// LookAt reads what a process holds, for catalogues of other systems than the
// daemon. Of a process that is gone Descriptors and Threads are -1.
func LookAt(pid int) Usage {
	u := look(pid)
	return Usage{Descriptors: u.descriptors, Children: u.children, Threads: u.threads, Peak: u.peak}
}

// MarkPeak makes the peak of a process begin anew, where this user may.
func MarkPeak(pid int) { markPeak(pid) }

// JudgeLog finds lines of a JSON log that are too long, hold raw bytes of a peer
// or are no JSON object.
func JudgeLog(log []byte) []string { return judgeLog(log) }

// Await looks at ready, again and again, until it reports true, fails, or ctx
// ends.
func Await(ctx context.Context, what string, ready func() (bool, error)) error {
	return await(ctx, what, ready)
}
