package runs

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"microvms/agentd/execution"
)

// What a run costs beside its process: the way of a run of /bin/true from its
// request to its terminal event, and that of a request whose token is known.
func BenchmarkRun(b *testing.B) {
	table := New(Config{Permits: 8, Log: slog.New(slog.DiscardHandler)})
	defer table.Shutdown(context.Background())
	spec := Spec{Deadline: time.Hour, Prepare: func(context.Context, ID) (*Prepared, error) {
		return &Prepared{Command: &execution.Command{Path: "/bin/true", Args: []string{"true"}}}, nil
	}}
	b.Run("true", func(b *testing.B) {
		for b.Loop() {
			ended := make(ending, 1)
			var id ID
			if err := table.Run(b.Context(), spec, ended, func(n ID) { id = n }); err != nil {
				b.Fatal(err)
			}
			<-ended
			if err := table.Ack(b.Context(), id); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("repeat", func(b *testing.B) {
		token := "t"
		spec := spec
		spec.Token = &token
		ended := make(ending, 1)
		for b.Loop() {
			if err := table.Run(b.Context(), spec, ended, func(ID) {}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// ending is a connection that waits for a terminal event.
type ending chan struct{}

func (e ending) Deliver(ev Event) {
	if ev.Kind.Terminal() {
		e <- struct{}{}
	}
}
