package execution

import "context"

type serialKey struct{}

// WithRequest returns a context that carries the serial number of the HTTP
// request in whose name the core is called. It appears in trace.Point.Request.
func WithRequest(ctx context.Context, serial uint64) context.Context {
	return context.WithValue(ctx, serialKey{}, serial)
}

// requestSerial returns the number that WithRequest stored, or 0.
func requestSerial(ctx context.Context) uint64 {
	n, _ := ctx.Value(serialKey{}).(uint64)
	return n
}
