package transfer

import (
	_ "embed"

	"microvms/model"
)

// goldenText is the golden record: what a check of each configuration must find.
//
//go:embed testdata/configs.golden
var goldenText string

type archive = [MaxMembers]Member

// The members that archives are made of.
var (
	folderD  = Member{Type: Folder, Name: D}
	folderDD = Member{Type: Folder, Parent: InD, Name: D}
	fileF    = Member{Type: File, Name: F, Size: 1}
	fileDF   = Member{Type: File, Parent: InD, Name: F, Size: 1}
	fileFF   = Member{Type: File, Parent: InF, Name: F, Size: 1}
	linkD    = Member{Type: Symlink, Name: D, Target: Dot}
	linkDF   = Member{Type: Symlink, Parent: InD, Name: F, Target: Up}
	hardF    = Member{Type: HardLink, Name: F, Target: TargetDF}
	hardDF   = Member{Type: HardLink, Parent: InD, Name: F, Target: TargetF}

	safeMembers = []Member{folderD, folderDD, fileF, fileDF, fileFF, linkD, linkDF, hardF, hardDF}
)

func of(members ...Member) archive {
	var a archive
	copy(a[:], members)
	return a
}

// sequences returns every archive of 1 to n of the members.
func sequences(members []Member, n int) []archive {
	out := []archive{}
	from := []archive{{}}
	for i := range n {
		var longer []archive
		for _, a := range from {
			for _, m := range members {
				a[i] = m
				longer = append(longer, a)
			}
		}
		out = append(out, longer...)
		from = longer
	}
	return out
}

// everyMember returns a member of each type for each name and target.
func everyMember() []Member {
	var out []Member
	for _, p := range []Parent{NoParent, InD, Above, Rooted} {
		for _, name := range []uint8{D, F, RootName} {
			for _, t := range []Type{Folder, File, Device} {
				m := Member{Type: t, Parent: p, Name: name}
				if t == File {
					m.Size = 1
				}
				out = append(out, m)
			}
			for target := range targetsEnd {
				if target == TargetF || target == TargetDF {
					continue // only hard links lead there here
				}
				out = append(out, Member{Type: Symlink, Parent: p, Name: name, Target: target})
			}
			for _, target := range []Target{NoTarget, TargetF, TargetDF, UpFile, Absolute} {
				out = append(out, Member{Type: HardLink, Parent: p, Name: name, Target: target})
			}
		}
	}
	var named []Member
	for _, m := range out {
		// A target that has no name of its own in the model is left out where it
		// would be safe.
		if m.Type == Symlink && m.Target == UpFile && m.Parent == InD {
			continue
		}
		if m.Name == RootName && m.Parent == InD {
			continue // "d/." is d
		}
		named = append(named, m)
	}
	return named
}

func namedArchives() []archive {
	var out []archive
	for _, m := range everyMember() {
		out = append(out, of(m))
		if !safe(m) {
			out = append(out, of(fileDF, m)) // what was before it must not be placed
		}
	}
	return append(out, of(folderD, folderDD, fileDF), of(fileDF, hardF, folderDD), of(linkD, fileDF))
}

// guestArchives are those that the guest interferes with.
func guestArchives() []archive {
	return []archive{
		of(fileF), of(fileDF), of(folderD, fileDF), of(folderD, folderDD), of(folderD, linkDF),
		of(fileDF, hardF), of(fileF, hardDF), of(fileDF, fileF, hardDF), of(folderD, folderDD, fileDF),
	}
}

// HeldNames is the specified rule for every name, type and target.
func HeldNames() Config {
	return Config{Name: "names", Archives: namedArchives(), MaxMembers: 3, MaxSize: 3, Short: true, Old: true}
}

// HeldTrees is the specified rule for every archive of up to three members that
// the lexical rules let pass: also those whose members stand in each other's
// way, or lead out of the root when links are followed.
func HeldTrees() Config {
	return Config{Name: "trees", Archives: sequences(safeMembers, 3), MaxMembers: 3, MaxSize: 3}
}

// HeldCaps is the specified rule at both caps, below and above.
func HeldCaps() Config {
	var sized []Member
	for size := range uint8(3) {
		m := fileF
		m.Size = size
		sized = append(sized, m)
	}
	return Config{Name: "caps", Archives: append(sequences(sized, 3), of(fileDF, fileF), of(fileDF, fileF, fileFF)), MaxMembers: 2, MaxSize: 2}
}

// HeldGuest is the specified rule while the guest changes the tree, twice, at
// any moment.
func HeldGuest() Config {
	return Config{Name: "guest", Archives: guestArchives(), MaxMembers: 3, MaxSize: 3, Acts: 2}
}

// HeldDisk is the specified rule while the disk fills up. A unit of size stands
// for as much as is written between two looks at the free space.
func HeldDisk() Config {
	return Config{Name: "disk", Archives: []archive{of(fileDF, fileF), of(folderD, fileDF)}, MaxMembers: 3, MaxSize: 3, Fills: true, Short: true}
}

// ReplayNames is replayed on the daemon for every name, type and target.
func ReplayNames() Config {
	c := HeldNames()
	c.Name, c.Old = "replay-names", false
	return c
}

// ReplayTrees is replayed for every pair of safe members, and for the triples
// that begin with a link or a folder.
func ReplayTrees() Config {
	c := HeldTrees()
	c.Name, c.Archives = "replay-trees", sequences(safeMembers, 2)
	for _, a := range sequences(safeMembers, 3) {
		if a[2].Type != NoMember && (a[0] == linkD && a[1] == linkDF || a[0] == folderD && a[1].Parent != NoParent || a[0] == fileDF && a[1].Type == HardLink) {
			c.Archives = append(c.Archives, a)
		}
	}
	return c
}

// ReplayCaps is replayed at both caps.
func ReplayCaps() Config {
	c := HeldCaps()
	c.Name = "replay-caps"
	return c
}

// ReplayGuest is replayed while the guest changes the tree once, at any moment.
func ReplayGuest() Config {
	c := HeldGuest()
	c.Name, c.Acts = "replay-guest", 1
	return c
}

// Replays returns the configurations that are replayed.
func Replays() []Config { return []Config{ReplayNames(), ReplayTrees(), ReplayCaps(), ReplayGuest()} }

// DeviantReplay returns a small configuration in which a deviation can be seen
// on the daemon: replayed on an honest one it must fail. ok is false for faults
// that show only on another kernel or a disk that fills up.
func DeviantReplay(d Deviation) (c Config, ok bool) {
	switch d {
	case ReserveOnce, OldKernelFallback:
		return c, false
	case ResolvedTwice, LastFollowed, Truncated, SourceFollowed, ModeFollowed:
		c = ReplayGuest()
	case MemberCapLow, MemberCapHigh, SizeCapLow, SizeCapHigh:
		c = ReplayCaps()
	case KernelOnly, JudgedInTurn, ReserveUnchecked:
		c = ReplayNames()
	default:
		c = ReplayTrees()
	}
	c.Name, c.Deviation = "deviant-"+d.Name(), d
	return c, true
}

// base returns the configuration in which a deviation is planted: the specified
// one in which its case exists.
func (d Deviation) base() Config {
	var c Config
	switch d {
	case KernelOnly, JudgedInTurn, OldKernelFallback:
		c = HeldNames()
	case ReserveUnchecked, ReserveOnce:
		c = HeldDisk()
	case MemberCapLow, MemberCapHigh, SizeCapLow, SizeCapHigh:
		c = HeldCaps()
	case ResolvedTwice, LastFollowed, Truncated, SourceFollowed, ModeFollowed:
		c = HeldGuest()
	default:
		c = HeldTrees()
	}
	c.Name, c.Deviation = d.Name(), d
	return c
}

// Configs returns every configuration: the specified ones, those that are
// replayed, and every deviation.
func Configs() []Config {
	out := append([]Config{HeldNames(), HeldTrees(), HeldCaps(), HeldGuest(), HeldDisk()}, Replays()...)
	for _, d := range Deviations() {
		out = append(out, d.base())
	}
	return out
}

// Suite returns the package's configurations with what a check of each must
// find: the golden record that the tests pin.
func Suite() model.Suite {
	s := model.Suite{
		Name:    "transfer",
		Summary: "extraction of an archive below a root that the guest changes meanwhile: nothing escapes, caps are exact, modes come last",
	}
	golden := model.MustParseGolden(goldenText)
	for _, c := range Configs() {
		expect := golden[c.Name]
		expect.Deviation = c.Deviation.String()
		s.Cases = append(s.Cases, model.NewCase(c.Name, func() model.Model[State] { return New(c) }, expect))
	}
	return s
}
