package transfer

import "microvms/model"

type (
	property = model.Property[State]
	action   = model.Action
)

// Names of witnesses that properties are paired with.
const (
	planted     = "a member meets a link that the guest planted for it"
	movedAway   = "a member is made in a folder that was moved away"
	throughLink = "a member behind a link of the archive is refused"
	whole       = "an archive of three members is placed whole"
	refused     = "an archive is refused for its last member"
	atTheCaps   = "an archive at both caps is placed"
	tooMuch     = "an archive is refused for a cap"
	kept        = "an entry with another name is replaced"
	modesLast   = "a folder that was filled gets its mode"
	lateFull    = "the disk fills up during the extraction"
	early       = "an upload is refused for the disk"
	oldKernel   = "an upload meets a kernel without openat2"
	hardLink    = "a hard link is made"
)

// stated is a property with the condition under which its case exists.
type stated struct {
	when bool
	property
}

// properties returns what must hold of a configuration. A property about a case
// that the configuration leaves out would be vacuous, so it is stated only where
// the case is.
func (c *Config) properties() []property {
	var out []property
	for _, p := range append(c.confinement(), c.verdicts()...) {
		if p.when {
			out = append(out, p.property)
		}
	}
	if c.Deviation != Specified {
		// Witnesses guard a pass against being vacuous. A planted fault is not meant to pass.
		for i := range out {
			out[i].Witness = ""
		}
		return out
	}
	for _, p := range c.witnesses() {
		if p.when {
			out = append(out, p.property)
		}
	}
	return out
}

// confinement is where members, modes and bytes go. It is stated over the tree,
// never over how the daemon resolved a name.
func (c *Config) confinement() []stated {
	links := c.holds(func(m Member) bool { return safe(m) && m.Type == Symlink })
	parents := c.holds(func(m Member) bool { return safe(m) && (m.Parent == InD || m.Parent == InF) })
	folders := c.holds(func(m Member) bool { return safe(m) && m.Type == Folder && m.Name != RootName })
	hard := c.holds(func(m Member) bool { return safe(m) && m.Type == HardLink })
	lead := func(s State) bool { return s.Phase.placing() && hasLink(&s) }
	confined := model.Always("nothing outside the root changes", func(s State) bool {
		return s.Tree[Outside] == [names]Node{D: Canary} && s.Tree[Canary] == [names]Node{F: CanaryFile} && (s.Content[0] == 0 || s.Linked)
	}, "FS-17").When(lead)
	own := model.AlwaysStep("a member is made in no other folder than that of its name", ownFolder, "FS-17").
		WhenStep(func(from State, a action, to State) bool { return madeIn(&from, a, &to) >= made })
	bytes := model.Always("other names of a file keep its bytes", bytesKept, "FS-19").
		When(func(s State) bool { return s.Phase.placing() && (s.Linked || s.named(fileOf) > 1) })
	modes := model.Always("no folder outside the root gets a mode", func(s State) bool { return !s.Modes[Canary] && !s.Modes[Outside] }, "FS-20").
		When(func(s State) bool { return s.Phase.placing() && s.Waiting != 0 })
	last := model.AlwaysStep("a folder gets its mode when every member is placed", func(from State, _ action, to State) bool {
		return from.Modes == to.Modes || from.Placed == 1<<from.Members()-1
	}, "FS-20").WhenStep(func(from State, _ action, to State) bool { return from.Modes != to.Modes })
	deep := model.AlwaysStep("deeper folders get their modes first", func(from State, _ action, to State) bool {
		return !shallow(&from, &to) || !deeperWaits(&to)
	}, "FS-20").WhenStep(func(from State, _ action, to State) bool { return shallow(&from, &to) })
	source := model.Always("no hard link of the archive leads out of the root", func(s State) bool {
		return s.Linked || s.named(CanaryFile) == 1
	}, "FS-23").When(func(s State) bool { return s.Phase.placing() && s.Archive[s.At].Type == HardLink })
	guest := c.Acts > 0
	return []stated{
		{guest || links, confined.WitnessedBy(either(guest, planted, throughLink))},
		{parents, own.WitnessedBy(either(guest, movedAway, whole))},
		{guest || hard, bytes.WitnessedBy(either(guest, kept, hardLink))},
		{folders, modes.WitnessedBy(modesLast)},
		{folders, last.WitnessedBy(modesLast)},
		{folders, deep.WitnessedBy(modesLast)},
		{hard, source.WitnessedBy(hardLink)},
	}
}

func either(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// holds reports whether some archive has such a member.
func (c *Config) holds(match func(m Member) bool) bool {
	for _, a := range c.Archives {
		for _, m := range a {
			if m.Type != NoMember && match(m) {
				return true
			}
		}
	}
	return false
}

func hasLink(s *State) bool {
	for _, entries := range s.Tree {
		for _, e := range entries {
			if e.link() {
				return true
			}
		}
	}
	return false
}

// madeIn returns the folder in which a step of the daemon changed an entry of
// the name of the member in its turn, None where there is none.
func madeIn(from *State, a action, to *State) Node {
	if a.ID != ArchivePlace && a.ID != ArchiveResolve {
		return None
	}
	for at := range from.Tree {
		if from.Tree[at] != to.Tree[at] {
			return Node(at)
		}
	}
	return None
}

func ownFolder(from State, a action, to State) bool {
	at := madeIn(&from, a, &to)
	m := from.Archive[from.At]
	switch {
	case at == None:
		return true
	case m.Parent == NoParent, from.Phase == BeforeParent:
		return at == Root
	}
	return at >= made
}

func bytesKept(s State) bool {
	if s.Linked && s.Content[0] != 0 {
		return false
	}
	for i := range uint8(MaxMembers) {
		if s.named(fileOf+Node(i)) > 1 && s.Content[1+i] != i+1 {
			return false
		}
	}
	return true
}

// shallow reports whether a step ended the wait of a folder in the root itself.
func shallow(from, to *State) bool {
	ended := from.Waiting &^ to.Waiting
	for i := range from.Archive {
		if ended&(1<<i) != 0 && from.Archive[i].Parent == NoParent {
			return true
		}
	}
	return false
}

func deeperWaits(s *State) bool {
	for i := range s.Archive {
		if s.Waiting&(1<<i) != 0 && s.Archive[i].Parent != NoParent {
			return true
		}
	}
	return false
}
