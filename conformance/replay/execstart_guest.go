package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"microvms/conformance/child"
	"microvms/model/execstart"
)

// StartHouse holds what all guests of a replay share: the program of the
// children where every user can reach it, and folders with shells, which are
// links to it. It does not change.
type StartHouse struct {
	Dir     string
	program string
}

// NewStartHouse makes a house in a fresh folder below dir, which every user must
// be able to traverse. Its owner removes it.
func NewStartHouse(dir string) (*StartHouse, error) {
	dir, err := os.MkdirTemp(dir, "execstart-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for children: %w", err)
	}
	h := &StartHouse{Dir: dir, program: dir + "/child"}
	if err := h.fill(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("cannot furnish the folder %q for children: %w", dir, err)
	}
	return h, nil
}

func (h *StartHouse) fill() error {
	if err := os.Chmod(h.Dir, 0o755); err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	if err := copyProgram(own, h.program); err != nil {
		return err
	}
	for folder, names := range map[string][]string{
		"request": {"allsh", "reqsh"}, "launch": {"allsh"}, "image": {"allsh", "imgsh"}, "abs": {"abssh"},
	} {
		if err := os.Mkdir(filepath.Join(h.Dir, folder), 0o755); err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Symlink(h.program, filepath.Join(h.Dir, folder, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	if err := out.Chmod(0o755); err != nil { // whatever the umask says
		_ = out.Close()
		return err
	}
	return out.Close()
}

// row is a line of the guest's passwd file.
type row struct {
	name     string
	uid, gid int
}

func (r row) home() string { return "/home/of-" + r.name }

// The guest's rows and numbers, one for each shape of the model. No two are
// equal, so that each id shows where it came from.
var (
	rowNamed        = row{"alice", 5001, 6001}
	rowID           = row{"bob", 5002, 6002}
	rowDigitsName   = row{"5009", 5010, 6010}
	rowDigits       = row{"dora", 5004, 6004}
	rowDefault      = row{"carol", 5020, 6020}
	rowDefaultByUID = row{"erin", 5021, 6021}
	rowRecord       = row{"frank", 5030, 6099} // its group is not the sealed one
)

const (
	uidNoRow, uidDigitsNoRow, uidDefaultNoRow = 5003, 5005, 5022
	uidRecordNoRow                            = 5031
	gidRecord, gidRecordNoRow                 = 6030, 6031
	gidRequested, gidNamed, gidDigits         = 7001, 7002, 7003
)

// startGuest is one guest: its files, in a folder of their own.
type startGuest struct {
	house *StartHouse
	dir   string
}

func newStartGuest(h *StartHouse, image execstart.Image, files execstart.Rows) (*startGuest, error) {
	dir, err := os.MkdirTemp(h.Dir, "guest-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for a guest: %w", err)
	}
	g := &startGuest{house: h, dir: dir}
	record := map[execstart.Record]string{
		execstart.RecordRow:    fmt.Sprintf("%d:%d\n", rowRecord.uid, gidRecord),
		execstart.RecordNoRow:  fmt.Sprintf("%d:%d\n", uidRecordNoRow, gidRecordNoRow),
		execstart.RecordBroken: "frank\n",
	}[image.Record]
	if record != "" {
		if err := os.WriteFile(g.record(), []byte(record), 0o444); err != nil {
			return nil, err
		}
	}
	return g, g.write(files)
}

func (g *startGuest) passwd() string { return g.dir + "/passwd" }
func (g *startGuest) group() string  { return g.dir + "/group" }
func (g *startGuest) record() string { return g.dir + "/image-user" }
func (g *startGuest) remove() error  { return os.RemoveAll(g.dir) }

// write puts the rows that stand into the guest's files.
func (g *startGuest) write(files execstart.Rows) error {
	rows := []row{rowID, rowDigitsName, rowDigits, rowDefaultByUID, rowRecord}
	if files.Has(execstart.NamedUserRow) {
		rows = append(rows, rowNamed)
	}
	if files.Has(execstart.DefaultUserRow) {
		rows = append(rows, rowDefault)
	}
	passwd, group := "# the guest's users\n", "other:x:7999:\n"
	for _, r := range rows {
		passwd += fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", r.name, r.uid, r.gid, r.home())
	}
	if files.Has(execstart.NamedGroupRow) {
		group += fmt.Sprintf("staff:x:%d:\n", gidNamed)
	}
	if err := os.WriteFile(g.passwd(), []byte(passwd), 0o644); err != nil {
		return err
	}
	return os.WriteFile(g.group(), []byte(group), 0o644)
}

// defaultUser is the value of AGENTD_DEFAULT_USER; nil for none.
func defaultUser(d execstart.DefaultUser) *string {
	var value string
	switch d {
	case execstart.DefaultUnset:
		return nil
	case execstart.DefaultNamed:
		value = rowDefault.name
	case execstart.DefaultDigits:
		value = strconv.Itoa(rowDefaultByUID.uid)
	case execstart.DefaultDigitsNoRow:
		value = strconv.Itoa(uidDefaultNoRow)
	case execstart.DefaultUnknown:
		value = "no-such-default"
	}
	return &value
}

// The values of variables, which say where they come from.
const (
	onlyName    = "IMAGE_ONLY"
	settingName = "AGENTD_DISK_RESERVE_BYTES"
	homeFrom    = "/home/from-"
	startBear   = "start-token"
)

func (h *StartHouse) path(layer string) string { return h.Dir + "/" + layer }

// environ is the daemon's startup environment.
func (h *StartHouse) environ() []string {
	return []string{"HOME=" + homeFrom + "image", "PATH=" + h.path("image"), onlyName + "=image", settingName + "=0"}
}

// layer is the environment of a launch or a request with these flags.
func (h *StartHouse) layer(f execstart.Flags, name string) map[string]string {
	env := map[string]string{}
	if f&execstart.FlagHome != 0 {
		env["HOME"] = homeFrom + name
	}
	if f&execstart.FlagPath != 0 {
		env["PATH"] = h.path(name)
	}
	return env
}

var startUsers = map[execstart.User]any{
	execstart.UserID: rowID.uid, execstart.UserIDNoRow: uidNoRow, execstart.UserNamed: rowNamed.name, execstart.UserUnknown: "no-such-user",
	execstart.UserDigitsName: rowDigitsName.name, execstart.UserDigits: strconv.Itoa(rowDigits.uid), execstart.UserDigitsNoRow: strconv.Itoa(uidDigitsNoRow),
}

var startGroups = map[execstart.Group]any{
	execstart.GroupID: gidRequested, execstart.GroupNamed: "staff", execstart.GroupUnknown: "no-such-group", execstart.GroupDigits: strconv.Itoa(gidDigits),
}

// shell is the wire's value for a shape of shell.
func (h *StartHouse) shell(s execstart.Shell) any {
	return map[execstart.Shell]any{
		execstart.ShellOff: false, execstart.ShellOn: true, execstart.ShellAnywhere: "allsh", execstart.ShellRequest: "reqsh",
		execstart.ShellImage: "imgsh", execstart.ShellSystem: "sh", execstart.ShellMissing: "no-such-shell",
		execstart.ShellAbsolute: h.Dir + "/abs/abssh", execstart.ShellRelative: "abs/abssh",
	}[s]
}

// body is the start request that stands for a request of the model.
func (h *StartHouse) body(exec string, r execstart.Request) (string, error) {
	env := h.layer(r.Flags, "request")
	for name, value := range child.Env {
		env[name] = value
	}
	body := map[string]any{"exec_id": exec, "env": env, "shell": h.shell(r.Shell), "cwd": h.Dir, "command": child.IdentityCommand(h.program)}
	if r.Shell != execstart.ShellOff {
		body["command"] = []string{child.IdentityScript(h.program)}
	}
	if u, ok := startUsers[r.User]; ok {
		body["user"] = u
	}
	if g, ok := startGroups[r.Group]; ok {
		body["group"] = g
	}
	if r.Flags&execstart.FlagInherit != 0 {
		body["inherit_image_env"] = true
	}
	data, err := json.Marshal(body)
	return string(data), err
}

// named returns what the detail of a refusal must name.
func (h *StartHouse) named(image execstart.Image, r execstart.Request, code execstart.Code) string {
	switch {
	case code == execstart.UnknownGroup:
		return fmt.Sprint(startGroups[r.Group])
	case code == execstart.UnknownShell:
		return fmt.Sprint(h.shell(r.Shell))
	case r.User != execstart.UserAbsent:
		return fmt.Sprint(startUsers[r.User])
	case image.Default != execstart.DefaultUnset:
		return "AGENTD_DEFAULT_USER"
	}
	return "AGENTD_PRESERVE_IMAGE_USER"
}

// variable renders the value of HOME, PATH or another variable in the model's
// words.
func (h *StartHouse) variable(value string, set bool) string {
	switch {
	case !set:
		return "-"
	case strings.HasPrefix(value, "/home/of-"):
		return "passwd of " + strings.TrimPrefix(value, "/home/of-")
	}
	value = strings.TrimPrefix(value, homeFrom)
	return strings.TrimPrefix(value, h.Dir+"/")
}
