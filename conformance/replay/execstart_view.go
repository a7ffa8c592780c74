package replay

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/conformance/child"
	"microvms/model"
	"microvms/model/execstart"
)

// standsBefore says at which transition a request in a phase is parked.
var standsBefore = map[execstart.Phase]trace.Action{
	execstart.PhaseReceived: trace.ExecStart, execstart.PhaseReserved: trace.ExecResolve, execstart.PhaseResolved: trace.ExecSpawn,
	execstart.PhaseRefused: trace.ExecRefuse, execstart.PhaseAnswering: trace.ControlAnswer,
}

// Observe reads back everything of a state that shows: health, where each
// request stands, and what each child says that it is.
func (d *startDriver) Observe(ctx context.Context, t Transition[execstart.State]) (Observation, error) {
	if d.daemon == nil {
		return Observation{{Name: "stage", Value: "off"}}, nil
	}
	h, err := d.wire.health(ctx)
	if err != nil {
		return nil, err
	}
	keys := "none"
	if h.ImageEnvKeys != nil {
		keys = strconv.Itoa(int(*h.ImageEnvKeys))
	}
	o := Observation{
		{Name: "bootstrapped", Value: strconv.FormatBool(h.Bootstrapped)},
		{Name: "snapshot keys", Value: keys},
		{Name: "registered", Value: strconv.Itoa(int(h.Execs))},
	}
	for i, r := range d.requests {
		at := "nowhere"
		if r != nil {
			at = "waiting"
			if r.parked != nil {
				at = string(r.parked.Point.Action)
			}
		}
		o = append(o, model.Field{Name: "request " + strconv.Itoa(i), Value: at})
	}
	for id := range execstart.MaxIDs {
		word, err := d.child(ctx, execName(uint8(id)), t.To.Stage == execstart.StageOpen)
		if err != nil {
			return nil, err
		}
		o = append(o, model.Field{Name: "child " + strconv.Itoa(id), Value: word})
	}
	return o, nil
}

// child follows an exec to its end and returns what its child said of itself. A
// child says it once, so it is asked once.
func (d *startDriver) child(ctx context.Context, exec string, open bool) (string, error) {
	if word, ok := d.said[exec]; ok {
		return word, nil
	}
	if !open {
		return "unknown", nil
	}
	out, known, err := d.wire.output(ctx, exec, "Bearer "+startBear)
	if err != nil || !known {
		return "unknown", err
	}
	i, err := child.ParseIdentity(out)
	if err != nil {
		return "", err
	}
	d.said[exec] = d.house.say(i)
	return d.said[exec], nil
}

// tokenInside stands for a variable that holds the token.
const tokenInside = "the token"

// byShells are variables that a shell sets by itself.
var byShells = []string{"PWD", "OLDPWD", "SHLVL", "_"}

// say renders an identity in the words of [StartHouse.expect]. What the model
// does not know of shows as it is.
func (h *StartHouse) say(i *child.Identity) string {
	env, further := map[string]string{}, []string{}
	for _, entry := range i.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
		_, driver := child.Env[name]
		own := driver || slices.Contains([]string{"HOME", "USER", "LOGNAME", "PATH", onlyName}, name)
		if strings.Contains(value, startBear) {
			further = append(further, tokenInside)
		}
		if !own && (i.Shell != "/bin/sh" || !slices.Contains(byShells, name)) {
			further = append(further, name)
		}
	}
	variable := func(name string) string {
		value, set := env[name]
		return h.variable(value, set)
	}
	shell := strings.TrimPrefix(i.Shell, h.Dir+"/")
	return fmt.Sprintf("uid %d gid %d groups %v, run by %s, HOME %s, USER %s, LOGNAME %s, PATH %s, %s %s, further %q",
		i.UID, i.GID, i.Groups, shell, variable("HOME"), variable("USER"), variable("LOGNAME"), variable("PATH"), onlyName, variable(onlyName), further)
}

// rowOf is the passwd row of a child's user, by what the request and the image
// say.
func rowOf(s execstart.State, e execstart.Exec) (r row) {
	switch e.Request.User {
	case execstart.UserID:
		return rowID
	case execstart.UserNamed:
		return rowNamed
	case execstart.UserDigitsName:
		return rowDigitsName
	case execstart.UserDigits:
		return rowDigits
	case execstart.UserAbsent:
		switch {
		case s.Image.Default == execstart.DefaultNamed:
			return rowDefault
		case s.Image.Default == execstart.DefaultDigits:
			return rowDefaultByUID
		case s.Image.Default == execstart.DefaultUnset && s.Image.Record == execstart.RecordRow:
			return rowRecord
		}
	}
	return row{}
}

// ids are the numbers that stand for the origins of a child's ids.
func ids(s execstart.State, e execstart.Exec) (uid, gid int) {
	r := rowOf(s, e)
	switch e.Child.UID {
	case execstart.UIDDaemon:
		uid = os.Getuid()
	case execstart.UIDRow, execstart.UIDDefault:
		uid = r.uid
	case execstart.UIDRecord:
		uid = map[execstart.Record]int{execstart.RecordRow: rowRecord.uid, execstart.RecordNoRow: uidRecordNoRow}[s.Image.Record]
	case execstart.UIDRequested:
		uid = map[execstart.User]int{execstart.UserID: rowID.uid, execstart.UserIDNoRow: uidNoRow, execstart.UserDigits: rowDigits.uid, execstart.UserDigitsNoRow: uidDigitsNoRow}[e.Request.User]
	}
	switch e.Child.GID {
	case execstart.GIDDaemon:
		gid = os.Getgid()
	case execstart.GIDPrimary, execstart.GIDDefaultRow:
		gid = r.gid
	case execstart.GIDRow:
		gid = gidNamed
	case execstart.GIDRecord:
		gid = map[execstart.Record]int{execstart.RecordRow: gidRecord, execstart.RecordNoRow: gidRecordNoRow}[s.Image.Record]
	case execstart.GIDRequested:
		gid = map[execstart.Group]int{execstart.GroupID: gidRequested, execstart.GroupDigits: gidDigits}[e.Request.Group]
	}
	return uid, gid
}

// expect is what the child of an exec must say of itself.
func (h *StartHouse) expect(s execstart.State, e execstart.Exec, ownGroups []int) string {
	if e.Spawns == 0 {
		return "unknown"
	}
	uid, gid := ids(s, e)
	supplementary := []int{}
	if e.Child.UID == execstart.UIDDaemon && e.Child.GID == execstart.GIDDaemon {
		supplementary = ownGroups // nobody asked for a change
	}
	shell := map[execstart.Program]string{
		execstart.ProgramArgv: "-", execstart.ProgramBinSh: "/bin/sh", execstart.ProgramSystem: "/bin/sh", execstart.ProgramAbsolute: "abs/abssh",
	}[e.Child.Program]
	name := map[execstart.Shell]string{execstart.ShellAnywhere: "allsh", execstart.ShellRequest: "reqsh", execstart.ShellImage: "imgsh"}[e.Request.Shell]
	if folder := map[execstart.Program]string{execstart.ProgramRequestPath: "request", execstart.ProgramLaunchPath: "launch", execstart.ProgramImagePath: "image"}[e.Child.Program]; folder != "" {
		shell = folder + "/" + name
	}
	variable := func(k int) string {
		switch source := e.Child.Env[k]; source {
		case execstart.FromPasswd:
			if k == execstart.UserName {
				return rowOf(s, e).name
			}
			return "passwd of " + rowOf(s, e).name
		default:
			return source.String()
		}
	}
	further := []string{}
	if e.Child.Env[execstart.Setting] != execstart.Absent {
		further = append(further, settingName)
	}
	if e.Child.Env[execstart.TokenVar] != execstart.Absent {
		further = append(further, tokenInside)
	}
	user := variable(execstart.UserName)
	return fmt.Sprintf("uid %d gid %d groups %v, run by %s, HOME %s, USER %s, LOGNAME %s, PATH %s, %s %s, further %q",
		uid, gid, supplementary, shell, variable(execstart.Home), user, user, variable(execstart.Path), onlyName, variable(execstart.ImageOnly), further)
}

// project is what must be observed after a transition.
func (h *StartHouse) project(t Transition[execstart.State], ownGroups []int) Observation {
	s := t.To
	if s.Stage == execstart.StageOff {
		return Observation{{Name: "stage", Value: "off"}}
	}
	registered := 0
	for _, e := range s.Execs {
		if e.Registered {
			registered++
		}
	}
	o := Observation{
		{Name: "bootstrapped", Value: strconv.FormatBool(s.Stage == execstart.StageOpen)},
		{Name: "snapshot keys", Value: strconv.Itoa(int(s.Snapshot.Keys()))},
		{Name: "registered", Value: strconv.Itoa(registered)},
	}
	for i, slot := range s.Slots {
		at, parked := standsBefore[slot.Phase]
		switch {
		case slot.Phase == execstart.PhaseIdle:
			at = "nowhere"
		case !parked:
			at = "waiting"
		}
		o = append(o, model.Field{Name: "request " + strconv.Itoa(i), Value: string(at)})
	}
	for id, e := range s.Execs {
		o = append(o, model.Field{Name: "child " + strconv.Itoa(id), Value: h.expect(s, e, ownGroups)})
	}
	return o
}

// mustName checks that a refusal names the value that did not resolve.
func (a *answer) mustName(value string) error {
	if !strings.Contains(string(a.body), strings.Trim(strconv.Quote(value), `"`)) {
		return fmt.Errorf("the refusal does not name %q", value)
	}
	return nil
}

// codeOf is the wire's error for a code of the model.
var codeOf = map[execstart.Code]api.Code{
	execstart.UnknownUser: api.UnknownUser, execstart.UnknownGroup: api.UnknownGroup, execstart.UnknownShell: api.UnknownShell,
}
