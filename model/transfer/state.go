package transfer

import (
	"fmt"
	"strings"

	"microvms/model"
)

// Bounds of the state, and so of every configuration.
const (
	MaxMembers = 3
	MaxFolders = 5 // that are made below the root in one behaviour
)

// Node is what an entry of a folder is: nothing, a folder, a file or a symbolic
// link. Folders and files are inodes; links are told apart by where they lead.
type Node uint8

// The nodes. Outside is the folder that holds the root and, as d, the canary
// folder, which holds, as f, the canary file.
const (
	None Node = iota
	Outside
	Canary
	Root
	made // the first of MaxFolders folders that are made
)

// The files: the canary's, and one for each member.
const (
	CanaryFile = made + MaxFolders + iota
	fileOf     // the file that member 0 makes
	_
	_
)

// The symbolic links: two that members bring, and two that the guest plants.
const (
	LinkDot    = fileOf + MaxMembers + iota // to "."
	LinkUp                                  // to "../d"
	LinkFolder                              // to the canary folder
	LinkFile                                // to the canary file
	nodes
)

const (
	folders = CanaryFile
	files   = 1 + MaxMembers
)

func (n Node) folder() bool { return n >= Outside && n < CanaryFile }
func (n Node) file() bool   { return n >= CanaryFile && n < LinkDot }
func (n Node) link() bool   { return n >= LinkDot && n < nodes }

// The names that an entry may have. RootName is the root itself.
const (
	D = iota
	F
	names
	RootName = names
)

var nameTexts = [...]string{"d", "f", "."}

// Type is the type of a member.
type Type uint8

// The types.
const (
	NoMember Type = iota
	Folder
	File
	Symlink
	HardLink
	Device
)

var typeTexts = [...]string{"-", "folder", "file", "symlink", "hardlink", "device"}

// Parent is what stands before the last component of a member's name.
type Parent uint8

// The parents.
const (
	NoParent Parent = iota
	InD             // "d/"
	InF             // "f/"
	Above           // "../"
	Rooted          // "/"
)

var parentTexts = [...]string{"", "d/", "f/", "../", "/"}

// name is the entry of the root that a parent is.
func (p Parent) name() uint8 { return uint8(p - InD) }

// Target is where a link of the archive leads.
type Target uint8

// The targets.
const (
	NoTarget   Target = iota
	Dot               // "."
	Up                // "../d"
	TargetF           // "f"
	TargetDF          // "d/f"
	UpFile            // "../d/f"
	Absolute          // "/d"
	targetsEnd        // one more than the last
)

var targetTexts = [targetsEnd]string{"", ".", "../d", "f", "d/f", "../d/f", "/d"}

// String returns the target as it stands in the archive.
func (t Target) String() string { return targetTexts[t] }

// Member is one member of an archive.
type Member struct {
	Type   Type
	Parent Parent
	Name   uint8
	Target Target
	Size   uint8 // of a file, in units
}

// Path is the member's name as it stands in the archive.
func (m Member) Path() string { return parentTexts[m.Parent] + nameTexts[m.Name] }

// String renders the member.
func (m Member) String() string {
	text := typeTexts[m.Type] + " " + m.Path()
	if m.Type == Symlink || m.Type == HardLink {
		text += " to " + fmt.Sprintf("%q", m.Target.String())
	}
	if m.Size > 0 {
		text += fmt.Sprintf(" of %d", m.Size)
	}
	return text
}

// Phase is the transition that the upload stands before.
type Phase uint8

// The phases.
const (
	BeforeSpool Phase = iota
	BeforeJudge
	BeforeReserve
	BeforeRoot
	BeforeMember
	BeforeParent // resolution of the parent of the member in its turn
	BeforePlace
	BeforeEnter      // resolution of the folder that was just made
	BeforeSource     // resolution of the parent of a hard link's source
	BeforeLink       // resolution of the parent of a hard link, its source being held
	BeforeMode       // a folder is about to get its mode
	BeforeModeParent // resolution of that folder's parent
	Ended
)

var phaseTexts = [...]string{"spool", "judge", "reserve", "root", "member", "parent", "place", "enter", "source", "link", "mode", "mode-parent", "ended"}

// String returns the phase as a word.
func (p Phase) String() string { return phaseTexts[p] }

// placing reports whether the root is open and the upload still under way.
func (p Phase) placing() bool { return p >= BeforeMember && p < Ended }

// Verdict is how an upload is answered.
type Verdict uint8

// The verdicts.
const (
	NoVerdict Verdict = iota
	Fine              // 204
	Unsafe            // 400
	TooMuch           // 413
	Broken            // 500
	Full              // 507
)

var verdictTexts = [...]string{"-", "204", "400", "413", "500", "507"}

// String returns the verdict's status.
func (v Verdict) String() string { return verdictTexts[v] }

// State is a state of the model.
type State struct {
	Archive [MaxMembers]Member
	Phase   Phase
	Verdict Verdict
	At      uint8 // the member in its turn, or whose mode is

	// What the daemon holds.
	Held     Node  // the folder that it resolved last, below the root; None when it holds none
	HeldName uint8 // under which name it resolved it
	Parent   Node  // of the member in its turn
	Source   Node  // of the hard link in its turn
	Waiting  uint8 // members, as bits: folders that wait for their mode
	Placed   uint8 // members, as bits
	Old      bool  // the kernel has no openat2
	Short    bool  // free space is below the reserve
	Wrote    bool  // a file was written while it was
	Acts     uint8 // of the guest
	Made     uint8 // folders that were made
	Linked   bool  // the guest gave the canary file a name below the root: a ghost
	Moved    Node  // a folder that the guest moved beside the root
	Content  [files]uint8
	Modes    [folders]bool // whether the folder has a member's mode
	Tree     [folders][names]Node
}

// Members returns the number of members of the archive.
func (s *State) Members() uint8 {
	n := uint8(0)
	for n < MaxMembers && s.Archive[n].Type != NoMember {
		n++
	}
	return n
}

func initial(archive [MaxMembers]Member) State {
	s := State{Archive: archive}
	s.Tree[Outside][D] = Canary
	s.Tree[Canary][F] = CanaryFile
	return s
}

// named returns how many names a node has.
func (s *State) named(n Node) int {
	count := 0
	for _, entries := range s.Tree {
		for _, e := range entries {
			if e == n {
				count++
			}
		}
	}
	if s.Moved == n {
		count++
	}
	return count
}

// gone reports whether a folder was removed. A handle of it is still good, but
// nothing can be made in it.
func (s *State) gone(n Node) bool { return n >= made && s.named(n) == 0 }

// parent returns the folder that "..", looked up in n, is.
func (s *State) parent(n Node) Node {
	for at, entries := range s.Tree {
		for _, e := range entries {
			if e == n {
				return Node(at)
			}
		}
	}
	return Outside
}

// follow returns what a symbolic link in the folder at leads to, None where it
// dangles.
func (s *State) follow(at, link Node) Node {
	for range 4 {
		switch link {
		case LinkDot:
			return at
		case LinkUp:
			at = s.parent(at)
			link = s.Tree[at][D]
		case LinkFolder:
			return Canary
		case LinkFile:
			return s.Tree[Canary][F]
		default:
			return link
		}
	}
	return None
}

// make makes a folder.
func (s *State) make(at Node, name uint8) Node {
	if s.Made == MaxFolders {
		panic("transfer: internal error: more folders are made than a state holds")
	}
	n := made + Node(s.Made)
	s.Made++
	s.Tree[at][name] = n
	return n
}

// remove takes an entry away, with all that is below it.
func (s *State) remove(at Node, name uint8) {
	n := s.Tree[at][name]
	s.Tree[at][name] = None
	if n.folder() && n >= made {
		for i := range uint8(names) {
			s.remove(n, i)
		}
	}
}

// Listing renders the folder that holds the root, recursively: what there is,
// what is in it, and how many names it has.
func Listing(s State) string {
	lines := list(&s, nil, Outside, "")
	lines = append(lines, list(&s, nil, Root, "root/")...)
	if s.Moved != None {
		lines = append(lines, s.mark("m", s.Moved))
		lines = append(lines, list(&s, nil, s.Moved, "m/")...)
	}
	return strings.Join(lines, " ")
}

func list(s *State, out []string, at Node, prefix string) []string {
	for name, e := range s.Tree[at] {
		path := prefix + nameTexts[name]
		switch {
		case e == None:
			continue
		case e.folder():
			out = append(out, s.mark(path, e))
			out = list(s, out, e, path+"/")
		case e.file():
			out = append(out, fmt.Sprintf("%s=%d*%d", path, s.Content[e-CanaryFile], s.named(e)))
		default:
			out = append(out, path+"->"+linkTexts[e-LinkDot])
		}
	}
	return out
}

// mark renders a folder, with a plus where it has a member's mode.
func (s *State) mark(path string, n Node) string {
	if s.Modes[n] {
		return path + "/+"
	}
	return path + "/"
}

var linkTexts = [...]string{".", "../d", "BASE/d", "BASE/d/f"}

// Fields renders a state for people.
func Fields(s State) []model.Field {
	var archive []string
	for _, m := range s.Archive[:s.Members()] {
		archive = append(archive, m.String())
	}
	return []model.Field{
		{Name: "archive", Value: strings.Join(archive, ", ")},
		{Name: "before", Value: s.Phase.String()},
		{Name: "verdict", Value: s.Verdict.String()},
		{Name: "tree", Value: Listing(s)},
	}
}
