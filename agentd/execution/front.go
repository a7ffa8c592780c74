package execution

// StdinRequested says whether the command was started with a stdin pipe, open
// or not.
func (e *Exec) StdinRequested() bool {
	requested, _ := e.stdin.state()
	return requested
}

// Ready says whether Next would return without waiting for output. A front
// door asks it to put several events into one write.
func (r *Reader) Ready() bool {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	_, ready := r.peekLocked()
	return ready && !r.closed && !r.ended
}
