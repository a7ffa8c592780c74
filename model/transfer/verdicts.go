package transfer

import "microvms/model"

// verdicts is which uploads are answered how, and what is placed of them.
func (c *Config) verdicts() []stated {
	out := c.unsafeProperties()
	over := func(s State) bool { return c.over(&s) }
	within := c.some(func(s State) bool { return !over(s) })
	ordinary := func(s State) bool {
		return s.Phase == Ended && s.Acts == 0 && !s.Short && !s.Old && !over(s) && s.ordinary()
	}
	judged := model.Always("nothing is placed before every member is judged", func(s State) bool {
		return s.Placed == 0 || s.allSafe()
	}, "FS-15").When(func(s State) bool { return s.Placed != 0 })
	accepted := model.Always("an ordinary archive is placed whole when nobody interferes", func(s State) bool {
		return !ordinary(s) || s.Verdict == Fine && s.complete()
	}, "FS-13").When(ordinary)
	capped := model.Always("an archive above a cap is refused and places nothing", func(s State) bool {
		return !ruled(s) || !over(s) || !s.allSafe() || s.Verdict == TooMuch && s.Placed == 0
	}, "FS-25").When(func(s State) bool { return ruled(s) && over(s) && s.allSafe() })
	exact := model.Always("an archive within the caps is not refused for them", func(s State) bool {
		return s.Verdict != TooMuch || over(s)
	}, "FS-25").When(func(s State) bool { return s.Phase == Ended && !over(s) })
	short := model.AlwaysStep("an upload that finds too little space is refused before its body", func(from State, a action, to State) bool {
		return a.ID != ArchiveSpool || !from.Short || to.Verdict == Full
	}, "FS-10").WhenStep(func(from State, a action, _ State) bool { return a.ID == ArchiveSpool && from.Short })
	full := model.Always("no file is written while free space is below the reserve", func(s State) bool { return !s.Wrote }, "FS-11").
		When(func(s State) bool { return s.Short && s.Phase == BeforePlace })
	old := model.AlwaysStep("without openat2 an upload is refused", func(from State, a action, to State) bool {
		return a.ID != ArchiveRoot || !from.Old || to.Verdict == Broken && to.Placed == 0
	}, "FS-18").WhenStep(func(from State, a action, _ State) bool { return a.ID == ArchiveRoot && from.Old })
	safeOver := c.some(func(s State) bool { return over(s) && s.allSafe() })
	return append(out,
		stated{c.some(func(s State) bool { return s.allSafe() && !over(s) }), judged.WitnessedBy(whole)},
		stated{c.some(func(s State) bool { return s.ordinary() && !over(s) }), accepted.WitnessedBy(whole)},
		stated{safeOver, capped.WitnessedBy(tooMuch)},
		stated{within, exact.WitnessedBy(either(safeOver, atTheCaps, whole))},
		stated{c.Short, short.WitnessedBy(early)},
		stated{c.Fills, full.WitnessedBy(lateFull)},
		stated{c.Old, old.WitnessedBy(oldKernel)},
	)
}

// unsafeProperties state, for each kind of unsafe member, that it is refused.
func (c *Config) unsafeProperties() []stated {
	var out []stated
	for _, k := range []struct {
		name string
		kind func(m Member) bool
		id   string
	}{
		{"an archive with a name that leaves the root is refused and places nothing", badName, "FS-16"},
		{"an archive with a link that leads out of the root is refused and places nothing", badLink, "FS-23"},
		{"an archive with a device is refused and places nothing", func(m Member) bool { return m.Type == Device }, "FS-24"},
	} {
		has := func(s State) bool {
			for _, m := range s.Archive[:s.Members()] {
				if k.kind(m) {
					return ruled(s) && !c.over(&s)
				}
			}
			return false
		}
		p := model.Always(k.name, func(s State) bool { return !has(s) || s.Verdict == Unsafe && s.Placed == 0 }, k.id).When(has).WitnessedBy(refused)
		out = append(out, stated{c.holds(k.kind), p})
	}
	return out
}

func badName(m Member) bool {
	return m.Parent >= Above || m.Name == RootName && (m.Type != Folder || m.Parent != NoParent)
}

func badLink(m Member) bool {
	return (m.Type == Symlink || m.Type == HardLink) && !badName(m) && !safe(m)
}

// ruled reports whether the rules decided an upload: it ended, and not for the
// disk or the kernel.
func ruled(s State) bool { return s.Phase == Ended && !s.Short && !s.Old }

// some reports whether some archive is like this.
func (c *Config) some(match func(s State) bool) bool {
	for _, a := range c.Archives {
		if match(initial(a)) {
			return true
		}
	}
	return false
}

// over reports whether the archive is above a cap.
func (c *Config) over(s *State) bool {
	size := uint8(0)
	for _, m := range s.Archive {
		size += m.Size
	}
	return s.Members() > c.MaxMembers || size > c.MaxSize
}

func (s *State) allSafe() bool {
	for _, m := range s.Archive[:s.Members()] {
		if !safe(m) {
			return false
		}
	}
	return true
}

// ordinary reports whether the archive is a tree as tar writes one: safe, no
// path twice, nothing below what is no folder, hard links to files before them.
func (s *State) ordinary() bool {
	if !s.allSafe() {
		return false
	}
	archive := s.Archive[:s.Members()]
	for i, m := range archive {
		for j, other := range archive {
			if i != j && m.Parent == other.Parent && m.Name == other.Name {
				return false
			}
			below := other.Parent != NoParent && m.Parent == NoParent && m.Name == other.Parent.name()
			if below && m.Type != Folder {
				return false
			}
		}
		if m.Type == HardLink && s.sourceOf(uint8(i)) == None {
			return false
		}
	}
	return true
}

// sourceOf returns the file that a hard link of an ordinary archive names: that
// of a member before it.
func (s *State) sourceOf(i uint8) Node {
	for j, m := range s.Archive[:i] {
		if m.Type == File && m.Name == F && (m.Parent == InD) == (s.Archive[i].Target == TargetDF) && m.Parent != InF {
			return fileOf + Node(j)
		}
	}
	return None
}

// complete reports whether every member is where its name says, as what it is.
func (s *State) complete() bool {
	for i, m := range s.Archive[:s.Members()] {
		at := Root
		if m.Parent != NoParent {
			at = s.Tree[Root][m.Parent.name()]
		}
		if m.Name == RootName {
			continue
		}
		if !at.folder() {
			return false
		}
		n := s.Tree[at][m.Name]
		switch m.Type {
		case Folder:
			if !n.folder() || !s.Modes[n] {
				return false
			}
		case File:
			if n != fileOf+Node(i) || s.Content[1+i] != uint8(i+1) {
				return false
			}
		case Symlink:
			if n != LinkDot && m.Target == Dot || n != LinkUp && m.Target == Up {
				return false
			}
		case HardLink:
			if n != s.sourceOf(uint8(i)) {
				return false
			}
		}
	}
	return true
}
