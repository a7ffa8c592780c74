package httpapi

import "sync"

// bufferSize is the size of the buffers in which polls and streams are
// encoded: room for several events of the largest size, so that a fast stream
// takes one system call for many.
const bufferSize = 128 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, bufferSize); return &b }}

func takeBuffer() *[]byte  { return buffers.Get().(*[]byte) }
func giveBuffer(b *[]byte) { buffers.Put(b) }
