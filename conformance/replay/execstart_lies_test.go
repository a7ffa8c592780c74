package replay

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"microvms/agentd/api"
	"microvms/model/execstart"
)

// crooked is a starter whose daemons are not what the driver asked for: their
// configuration is edited, or a proxy before them lies.
func crooked(edit func(o *StartOptions), l lie) StartStarter {
	honest := startInProcess()
	return func(ctx context.Context, o StartOptions) (*Daemon, error) {
		if edit != nil {
			edit(&o)
		}
		return lying(func(ctx context.Context, _ Options) (*Daemon, error) { return honest(ctx, o) }, l)(ctx, Options{})
	}
}

// lieConfig is a small configuration in which each lie below shows.
func lieConfig() execstart.Config {
	return execstart.Config{
		Name: "lies", Slots: 1, IDs: 1, Requests: 1, Images: []execstart.Image{{Default: execstart.DefaultNamed}, {Record: execstart.RecordNoRow}, {}},
		Launches: []execstart.Flags{0}, Users: []execstart.User{execstart.UserAbsent, execstart.UserNamed, execstart.UserID, execstart.UserUnknown},
		Groups: []execstart.Group{execstart.GroupAbsent, execstart.GroupNamed}, Shells: []execstart.Shell{execstart.ShellOff, execstart.ShellOn},
		Flags: []execstart.Flags{0, execstart.FlagInherit | execstart.FlagHome},
	}
}

// TestExecStartNoticesLies replays on daemons that are each wrong in one way,
// and expects the failure to say how. The first is honest.
func TestExecStartNoticesLies(t *testing.T) {
	h := house(t)
	start := api.PathExecStart
	for _, c := range []struct {
		name  string
		edit  func(o *StartOptions)
		lie   lie
		words string // of the failure; empty for none
	}{
		{name: "honest"},
		{name: "no group file", edit: func(o *StartOptions) { o.GroupPath = os.DevNull }, words: "unknown_group"},
		{name: "no passwd file", edit: func(o *StartOptions) { o.PasswdPath = os.DevNull }, words: "unknown_user"},
		{name: "default user ignored", edit: func(o *StartOptions) { o.DefaultUser = nil }, words: "uid 5020 gid 6020"},
		{name: "record ignored", edit: func(o *StartOptions) { o.PreserveImageUser = false }, words: "uid 5031 gid 6031"},
		{name: "a variable too many in the image", edit: func(o *StartOptions) { o.Environ = append(o.Environ, "X=y") }, words: "snapshot keys"},
		{name: "a variable too few in the image", edit: func(o *StartOptions) { o.Environ = o.Environ[1:] }, words: "snapshot keys"},
		{name: "a variable of the image missing in children", lie: lie{asks: body(start, `"inherit_image_env":true`, `"inherit_image_env":false`)}, words: onlyName},
		{name: "another user", lie: lie{asks: body(start, `"user":"alice"`, `"user":"bob"`)}, words: "uid 5002 gid 6002"},
		{name: "a number for a name", lie: lie{asks: body(start, `"user":"alice"`, `"user":5001`)}, words: "gid"},
		{name: "another group", lie: lie{asks: body(start, `"group":"staff"`, `"group":"other"`)}, words: "gid 7999"},
		{name: "another HOME", lie: lie{asks: body(start, homeFrom+"request", homeFrom+"launch")}, words: "HOME launch"},
		{name: "a variable from elsewhere", lie: lie{asks: body(start, `"env":{`, `"env":{"EXTRA":"1",`)}, words: "EXTRA"},
		{name: "another shell", lie: lie{asks: body(start, `"shell":true`, `"shell":"imgsh"`)}, words: "run by image/imgsh"},
		{name: "a start refused as another", lie: lie{says: replaced("unknown_user", "unknown_group")}, words: "answered 400 unknown_group"},
		{name: "a refusal with another status", lie: lie{says: status(400, 404)}, words: "answered 404"},
		{name: "a refusal that names nothing", lie: lie{says: replaced("no-such-user", "it")}, words: "does not name"},
		{name: "an unknown user started", lie: lie{asks: body(start, `"user":"no-such-user"`, `"user":"alice"`)}, words: "the model says unknown_user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ExecStart(lieConfig(), h, crooked(c.edit, c.lie))
			s.MaxFailures = 1
			r, err := Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if c.words == "" {
				if err := r.Err(); err != nil {
					t.Error(err)
				}
				return
			}
			if len(r.Failures) == 0 || !strings.Contains(r.Failures[0], c.words) {
				t.Errorf("failures %q, want one with %q", r.Failures, c.words)
			}
		})
	}
}

// replaced replaces a word in the bodies of refusals.
func replaced(old, replacement string) func(r *http.Response) {
	return func(r *http.Response) {
		if r.StatusCode != http.StatusBadRequest {
			return
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		data = bytes.ReplaceAll(data, []byte(old), []byte(replacement))
		r.Body = io.NopCloser(bytes.NewReader(data))
		r.ContentLength = int64(len(data))
		r.Header.Set("Content-Length", strconv.Itoa(len(data)))
	}
}

// TestExecStartNoticesDeviations replays each deviant model on the honest
// daemon: where the two differ, the replay must say so. It is the same judgement
// as that of a deviant daemon by the specified model, for faults in the middle
// of a request, which no proxy can plant.
func TestExecStartNoticesDeviations(t *testing.T) {
	h := house(t)
	for _, d := range execstart.Deviations() {
		if d == execstart.WaiterForgotten {
			continue // it only takes transitions away, so what is left of the model is right
		}
		t.Run(d.Name(), func(t *testing.T) {
			c := execstart.DeviantReplay(d)
			s := ExecStart(c, h, startInProcess())
			s.MaxFailures, s.StepTimeout = 1, 5*time.Second // a daemon that does not go where a deviant model says never will
			r, err := Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Failures) == 0 {
				t.Errorf("the replay did not notice that %s", d)
			}
		})
	}
}
