package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"microvms/agentd/api/msp"
	"microvms/agentd/trace"
	"microvms/conformance/child"
	"microvms/conformance/replay"
	"microvms/model"
	"microvms/model/manager"
)

type transition = replay.Transition[manager.State]

// driver is one path's manager, its clients and its executors.
type driver struct {
	config manager.Config
	shop   *Workshop
	start  Starter
	hold   func(p trace.Point) bool

	manager *Manager
	http    *http.Client
	serial  uint64 // connections that were dialed of this manager
	boots   []uint64
	status  *status
	asker   *client // asks what the model does not tie to a connection
	clients [manager.MaxConns]link
	path    string
	boot    int

	names     [manager.MaxRuns]string // of the runs' executors
	tokens    [manager.MaxRuns]string
	processes [manager.MaxRuns]*child.Process
	expiry    [manager.MaxRuns]uint64 // serial numbers of timers
	seen      map[uint64]bool         // recorded events that stood for a step
}

// link is a client with the number by which the manager's recorder knows it.
type link struct {
	*client
	serial uint64
}

// Spec returns the replay of a configuration: held by a gate, or settled.
func Spec(c manager.Config, target string, shop *Workshop, start Starter) replay.Spec[manager.State] {
	m := manager.New(c)
	if target != "binary" {
		// A manager in the test process is not killed, so nothing is shown of what its death does.
		m.Properties = slices.DeleteFunc(m.Properties, func(p model.Property[manager.State]) bool {
			return slices.Contains(p.Requirements, "MGR-26")
		})
	}
	return replay.Spec[manager.State]{
		Name: "manager-" + c.Name, Target: target, Model: m,
		Start: func(ctx context.Context, _ manager.State) (replay.Driver[manager.State], error) {
			d := &driver{config: c, shop: shop, start: start, path: shop.path()}
			if !c.Settled {
				d.hold = held
			}
			if err := d.open(ctx, manager.State{}); err != nil {
				return nil, errors.Join(err, d.Close())
			}
			for i := range c.Conns {
				if err := d.connect(ctx, i); err != nil {
					return nil, errors.Join(err, d.Close())
				}
			}
			return d, nil
		},
		Project: func(t transition) replay.Observation { return project(c, t) },
	}
}

// open starts a manager and the driver's own connection to it.
func (d *driver) open(ctx context.Context, _ manager.State) (err error) {
	d.manager, err = d.start(ctx, Options{Executors: d.shop.Executors(), Hold: d.hold, Permits: int(d.config.Permits)})
	if err != nil {
		return err
	}
	d.http, d.serial, d.seen = d.manager.client(), 0, map[uint64]bool{}
	d.names, d.tokens = [manager.MaxRuns]string{}, [manager.MaxRuns]string{}
	d.processes = [manager.MaxRuns]*child.Process{}
	for i := range d.names {
		d.names[i] = fmt.Sprintf("%s-b%d-r%d", d.path, d.boot, i+1)
	}
	l, err := d.dial(ctx)
	if err != nil {
		return err
	}
	d.asker = l.client
	if d.status, err = d.manager.askStatus(ctx); err != nil {
		return err
	}
	d.boots = append(d.boots, l.boot)
	return nil
}

// dial opens a connection and counts it.
func (d *driver) dial(ctx context.Context) (link, error) {
	c, err := d.manager.dial(ctx, d.http)
	if err != nil {
		return link{}, err
	}
	d.serial++
	return link{c, d.serial}, nil
}

func (d *driver) connect(ctx context.Context, conn uint8) (err error) {
	d.clients[conn], err = d.dial(ctx)
	return err
}

// Do performs the operation that the action stands for, and waits for what
// follows from it.
func (d *driver) Do(ctx context.Context, t transition) error {
	if d.config.Eager {
		for i := range d.clients {
			if d.clients[i].client != nil {
				d.clients[i].popAll()
			}
		}
	}
	if err := d.prepare(t); err != nil {
		return err
	}
	mark, timers := d.mark(), d.lastTimer()
	if err := d.act(ctx, t); err != nil {
		return err
	}
	if t.Action.ID == manager.ActRestart {
		return nil
	}
	if err := d.await(ctx, mark, t); err != nil {
		return err
	}
	if err := d.executors(ctx, t); err != nil {
		return err
	}
	return d.expiries(ctx, t, timers)
}

// prepare lays the executors that the step spawns, or takes them away.
func (d *driver) prepare(t transition) error {
	for i := range d.config.Runs {
		from, to := &t.From.Runs[i], &t.To.Runs[i]
		switch {
		case to.SpawnFailed && !from.SpawnFailed:
			if err := d.shop.lay(d.names[i], false); err != nil {
				return err
			}
		case to.Spawned > 0 && from.Spawned == 0:
			if err := d.shop.lay(d.names[i], true); err != nil {
				return err
			}
		}
	}
	return nil
}

// act performs the operation.
func (d *driver) act(ctx context.Context, t transition) error {
	arg := t.Action.Arg
	switch t.Action.ID {
	case manager.ActRun:
		return d.run(ctx, t)
	case manager.ActAttach:
		boot := d.boots[d.boot]
		if arg[2] != 0 {
			boot = d.boots[d.boot-1]
		}
		return d.asks(ctx, t, d.clients[arg[0]].client, &msp.Request{Attach: &msp.Attach{BootID: boot, GenvmID: uint64(arg[1]) + 1}})
	case manager.ActCancel:
		return d.asks(ctx, t, d.asker, &msp.Request{Cancel: &msp.Target{GenvmID: uint64(arg[0]) + 1}})
	case manager.ActAck:
		return d.asks(ctx, t, d.asker, &msp.Request{Ack: &msp.Target{GenvmID: uint64(arg[0]) + 1}})
	case manager.ActRead:
		return d.read(ctx, t)
	case manager.ActDeliver:
		// What a settled manager sends of two runs at once has no order between them.
		head := t.From.Conns[arg[0]].Out[0]
		return d.clients[arg[0]].pop(uint64(head.Run())+1, !d.config.Settled)
	case manager.ActDisconnect:
		d.clients[arg[0]].cut()
		d.clients[arg[0]].client = nil
		return nil
	case manager.ActReconnect:
		return d.connect(ctx, arg[0])
	case manager.ActExecutorExit:
		return d.exit(ctx, t)
	case manager.ActShutdown:
		d.manager.Stop()
		return nil
	case manager.ActRestart:
		return d.restart(ctx, t)
	case manager.ActDeadline, manager.ActExpire:
		return d.timer(ctx, t)
	}
	if d.manager.Gate == nil {
		return errors.New("the table has no operation for the action")
	}
	return d.pass(ctx, t)
}

// timer lets a timer fire, or time pass.
func (d *driver) timer(ctx context.Context, t transition) error {
	run := t.Action.Arg[0]
	switch {
	case d.manager.Timers == nil:
		return nil // what it brings about is awaited
	case t.Action.ID == manager.ActDeadline:
		return d.manager.Timers.Fire(ctx, deadline(run))
	}
	return d.manager.Timers.FireSerial(ctx, d.expiry[run])
}

// exit has an executor exit, unless the manager has killed it.
func (d *driver) exit(ctx context.Context, t transition) error {
	run := t.Action.Arg[0]
	if t.From.Runs[run].Phase == manager.Running {
		if err := d.processes[run].Exit(ctx, 0); err != nil {
			return err
		}
	}
	if d.manager.Gate == nil {
		return nil
	}
	return d.pass(ctx, t)
}

// restart kills the manager and starts another. Every executor must die with it.
func (d *driver) restart(ctx context.Context, t transition) error {
	for i := range d.clients {
		if d.clients[i].client != nil && d.manager.Timers != nil {
			d.clients[i].cut() // a manager in the test process could still speak
		}
	}
	if err := d.end(ctx, d.manager.Kill); err != nil {
		return err
	}
	for i, p := range d.processes {
		if p == nil || t.From.Runs[i].Phase > manager.Stopping {
			continue
		}
		if err := p.AwaitEnd(ctx); err != nil {
			return fmt.Errorf("an executor outlives its manager: %w", err)
		}
	}
	for i := range d.clients {
		if d.clients[i].client == nil {
			continue
		}
		if err := d.clients[i].awaitEnd(ctx); err != nil {
			return err
		}
		d.clients[i].client = nil
	}
	d.boot++
	return d.open(ctx, t.To)
}

// end ends the manager by one of its ways.
func (d *driver) end(ctx context.Context, how func()) error {
	if d.manager == nil {
		return nil
	}
	m := d.manager
	d.manager = nil
	if m.Gate != nil {
		m.Gate.Open()
	}
	how()
	if d.asker != nil {
		d.asker.cut()
	}
	if d.status != nil {
		d.status.conn.Close()
	}
	d.http.CloseIdleConnections()
	return m.Wait(ctx)
}

// Close ends the manager and everything around it.
func (d *driver) Close() error {
	for i := range d.clients {
		if d.clients[i].client != nil {
			d.clients[i].cut()
		}
	}
	if d.manager == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return d.end(ctx, d.manager.Stop)
}

// actionOf names an action, for errors.
func actionOf(a model.Action) string { return manager.Actions()[a.ID].Name }
