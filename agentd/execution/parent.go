package execution

import (
	"runtime"
	"sync"
)

// parentThread is the one thread that creates the children with
// Command.DieWithParent. The kernel sends their death signal when the thread
// that forked them ends, not when its process does, and the runtime may end any
// other thread at any time. It is started at the first such child.
type parentThread struct {
	mu   sync.Mutex
	work chan func() // nil: not started
	done chan struct{}
}

// do runs f in the thread.
func (p *parentThread) do(f func()) {
	p.mu.Lock()
	if p.work == nil {
		p.work, p.done = make(chan func()), make(chan struct{})
		go serveThread(p.work, p.done)
	}
	work := p.work
	p.mu.Unlock()
	finished := make(chan struct{})
	work <- func() { defer close(finished); f() }
	<-finished
}

// serveThread keeps its goroutine and its thread together to the end, so that
// no other goroutine can end the thread.
func serveThread(work <-chan func(), done chan<- struct{}) {
	runtime.LockOSThread()
	defer close(done)
	for f := range work {
		f()
	}
}

// end ends the thread. No do may be under way or follow.
func (p *parentThread) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.work == nil {
		return
	}
	close(p.work)
	<-p.done
	p.work = nil
}

// create runs the creation of a child where it belongs.
func (r *Registry) create(c *Command, f func()) {
	if c.DieWithParent {
		r.parent.do(f)
		return
	}
	f()
}
