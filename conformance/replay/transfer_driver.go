package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/model/transfer"
)

// TransferOptions are what the driver of the transfer model asks of the daemon
// that is started for it.
type TransferOptions struct {
	Hold       func(p trace.Point) bool
	MaxMembers int
	MaxBytes   int64
	Reserve    int64 // bytes of the disk reserve, negative for none
}

// TransferStarter starts a fresh daemon in the test process, whose gate stands
// at the transition points of an upload.
type TransferStarter func(ctx context.Context, o TransferOptions) (*Daemon, error)

// Transfer replays the extraction of archives below a real root, with a canary
// beside it, while the guest changes the tree between two steps of the daemon.
//
// The table of actions and operations:
//
//	ArchiveSpool                PUT the archive; it stands before ArchiveJudge, or is answered 507
//	ArchiveJudge … ArchiveMode  let the upload go on; it stands before the next point, or is answered
//	GuestPlant                  rename a folder away, or remove the entry, and plant a symbolic link
//	GuestRemove                 remove the entry with all below it
//	GuestLink                   remove the entry and link the canary file there
//	GuestFolder                 remove the entry and make a folder
//
// What the upload stands before, the answer and the whole tree, with contents,
// modes and numbers of names, are compared after each step.
func Transfer(c transfer.Config, dir string, start TransferStarter) Spec[transfer.State] {
	return Spec[transfer.State]{
		Name: "transfer-" + c.Name, Target: "in-process", Model: transfer.New(c),
		Start: func(ctx context.Context, initial transfer.State) (Driver[transfer.State], error) {
			d := &transferDriver{archive: initial.Archive}
			var err error
			if d.tree, err = newTransferTree(dir, initial.Archive); err != nil {
				return nil, err
			}
			o := TransferOptions{
				Hold: d.hold, MaxMembers: int(c.MaxMembers), MaxBytes: int64(c.MaxSize) * transferUnit, Reserve: -1,
			}
			if initial.Short {
				o.Reserve = 1 << 62 // more than any disk has
			}
			if d.daemon, err = start(ctx, o); err != nil {
				return nil, errors.Join(err, d.tree.remove())
			}
			d.wire = newWire(d.daemon.URL)
			if err := d.bootstrap(ctx); err != nil {
				return nil, errors.Join(err, d.Close())
			}
			return d, nil
		},
		Project: projectTransfer,
	}
}

const transferBear = "transfer-token"

// transferDriver drives one upload through one daemon.
type transferDriver struct {
	archive [transfer.MaxMembers]transfer.Member
	tree    *transferTree
	daemon  *Daemon
	wire    *wire
	calls   sync.WaitGroup

	parked *Parked     // where the upload stands; nil before it and after its answer
	answer *answer     // once it came
	coming chan result // the answer, when it comes
	cut    context.CancelFunc
}

func (d *transferDriver) hold(p trace.Point) bool {
	switch p.Action {
	case trace.ArchiveJudge, trace.ArchiveReserve, trace.ArchiveRoot, trace.ArchiveMember, trace.ArchiveResolve, trace.ArchivePlace, trace.ArchiveMode:
		return true
	}
	return false
}

func (d *transferDriver) bootstrap(ctx context.Context) error {
	a, err := d.wire.call(ctx, d.wire.once, http.MethodPost, api.HookPrefix+"/run", "", api.MediaJSON, envelope(`{"agent_token":"`+transferBear+`"}`))
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("the run hook was answered %d", a.status)
	}
	return err
}

// Do takes one step.
func (d *transferDriver) Do(ctx context.Context, t Transition[transfer.State]) error {
	switch t.Action.ID {
	case transfer.ArchiveSpool:
		if err := d.upload(ctx); err != nil {
			return err
		}
	case transfer.GuestPlant, transfer.GuestRemove, transfer.GuestLink, transfer.GuestFolder:
		return d.tree.guest(t)
	case transfer.GuestFill:
		return errors.New("the table has no operation for the action")
	default:
		if d.parked == nil {
			return errors.New("the upload stands nowhere")
		}
		d.parked.Release()
		d.parked = nil
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	return d.judgeAnswer(t)
}

// upload sends the archive.
func (d *transferDriver) upload(ctx context.Context) error {
	body, err := d.tree.pack()
	if err != nil {
		return err
	}
	// The request outlives the step; Close ends it.
	own, cut := context.WithCancel(context.WithoutCancel(ctx))
	d.cut, d.coming = cut, make(chan result, 1)
	path := api.PathTar + "?path=" + url.QueryEscape(d.tree.root())
	d.calls.Go(func() {
		a, err := d.wire.call(own, d.wire.once, http.MethodPut, path, "Bearer "+transferBear, api.MediaTar, body)
		d.coming <- result{a, err}
	})
	return nil
}

// settle waits until the upload stands before a point or is answered.
func (d *transferDriver) settle(ctx context.Context) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	stands := make(chan *Parked, 1)
	go func() {
		p, err := d.daemon.Gate.Await(waiting, func(trace.Point) bool { return true })
		if err == nil {
			stands <- p
		}
	}()
	select {
	case d.parked = <-stands:
		return nil
	case r := <-d.coming:
		d.answer = r.answer
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("the upload neither stands before a point nor is answered: %w", ctx.Err())
	}
}

// judgeAnswer checks what a refusal says.
func (d *transferDriver) judgeAnswer(t Transition[transfer.State]) error {
	if d.answer == nil || d.answer.status == http.StatusNoContent {
		return nil
	}
	text := string(d.answer.body)
	switch t.To.Verdict {
	case transfer.Unsafe:
		member := t.From.Archive[t.From.At]
		if t.Action.ID == transfer.ArchiveJudge {
			member = t.From.Archive[transfer.FirstUnsafe(t.From)]
		}
		if !strings.Contains(text, strconv.Quote(member.Path())) {
			return fmt.Errorf("the refusal %q does not name the member %q", text, member.Path())
		}
	case transfer.Full:
		if !strings.Contains(text, strconv.FormatInt(1<<62, 10)) || !strings.Contains(text, "available") {
			return fmt.Errorf("the refusal %q does not name the available and the reserved bytes", text)
		}
	}
	return nil
}

// Observe reads where the upload stands, its answer and the tree.
func (d *transferDriver) Observe(context.Context, Transition[transfer.State]) (Observation, error) {
	before, status := "nothing", "-"
	if d.parked != nil {
		before = standing(d.parked.Point.Action, d.parked.Point.Member)
	}
	if d.answer != nil {
		status = strconv.Itoa(d.answer.status)
	}
	listing, err := d.tree.listing()
	return Observation{{Name: "before", Value: before}, {Name: "answer", Value: status}, {Name: "tree", Value: listing}}, err
}

// Close lets the upload go, ends the daemon and removes the tree.
func (d *transferDriver) Close() error {
	d.daemon.Gate.Open()
	if d.cut != nil {
		d.cut()
	}
	d.calls.Wait()
	d.wire.close()
	return errors.Join(d.daemon.Stop(), d.tree.remove())
}

func standing(a trace.Action, member uint64) string {
	if member == 0 {
		return string(a)
	}
	return fmt.Sprintf("%s of %d", a, member)
}

// projectTransfer is what must be observed after a transition.
func projectTransfer(t Transition[transfer.State]) Observation {
	s := t.To
	before, member := "nothing", uint64(0)
	if point, stands := transferPoints[s.Phase]; stands {
		if s.Phase >= transfer.BeforeMember {
			member = uint64(s.At) + 1
		}
		before = standing(point, member)
	}
	return Observation{
		{Name: "before", Value: before}, {Name: "answer", Value: s.Verdict.String()}, {Name: "tree", Value: transfer.Listing(s)},
	}
}

// transferPoints is where an upload stands in each phase.
var transferPoints = map[transfer.Phase]trace.Action{
	transfer.BeforeJudge: trace.ArchiveJudge, transfer.BeforeReserve: trace.ArchiveReserve, transfer.BeforeRoot: trace.ArchiveRoot,
	transfer.BeforeMember: trace.ArchiveMember, transfer.BeforePlace: trace.ArchivePlace, transfer.BeforeMode: trace.ArchiveMode,
	transfer.BeforeParent: trace.ArchiveResolve, transfer.BeforeEnter: trace.ArchiveResolve, transfer.BeforeSource: trace.ArchiveResolve,
	transfer.BeforeLink: trace.ArchiveResolve, transfer.BeforeModeParent: trace.ArchiveResolve,
}
