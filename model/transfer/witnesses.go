package transfer

import "microvms/model"

// witnesses are the cases without which a pass would mean nothing.
func (c *Config) witnesses() []stated {
	guest := c.Acts > 0
	safeArchive := c.some(func(s State) bool { return s.allSafe() && !c.over(&s) })
	unsafe := c.some(func(s State) bool { return !s.allSafe() && !c.over(&s) })
	over := c.some(func(s State) bool { return s.allSafe() && c.over(&s) })
	hard := c.some(func(s State) bool { return s.ordinary() && c.holdsIn(s, HardLink) })
	return []stated{
		{guest && !c.Fills, model.Sometimes(planted, func(s State) bool {
			return s.Verdict == Unsafe && s.Acts > 0 && s.Placed == 0 && s.ordinary()
		}, "FS-17")},
		{guest && !c.Fills, model.SometimesStep(movedAway, func(from State, a action, to State) bool {
			at := madeIn(&from, a, &to)
			return a.ID == ArchivePlace && at != None && at == from.Moved
		}, "FS-17")},
		{!guest && c.holds(func(m Member) bool { return m.Type == Symlink && safe(m) && m.Parent == NoParent }), model.Sometimes(throughLink, func(s State) bool {
			return s.Verdict == Unsafe && s.Acts == 0 && s.allSafe()
		}, "FS-17")},
		{safeArchive, model.Sometimes(whole, func(s State) bool { return s.Verdict == Fine && s.complete() }, "FS-13")},
		{unsafe, model.Sometimes(refused, func(s State) bool { return s.Verdict == Unsafe && !s.allSafe() }, "FS-15", "FS-16")},
		{over, model.Sometimes(atTheCaps, func(s State) bool {
			size := uint8(0)
			for _, m := range s.Archive {
				size += m.Size
			}
			return s.Verdict == Fine && s.Members() == c.MaxMembers && size == c.MaxSize
		}, "FS-25")},
		{over, model.Sometimes(tooMuch, func(s State) bool { return s.Verdict == TooMuch }, "FS-25")},
		{guest, model.SometimesStep(kept, func(from State, a action, to State) bool {
			return a.ID == ArchivePlace && from.Linked && from.named(CanaryFile) == to.named(CanaryFile)+1
		}, "FS-19")},
		{hard, model.Sometimes(hardLink, func(s State) bool {
			return s.Verdict == Fine && s.named(fileOf)+s.named(fileOf+1) > 1 && c.holdsIn(s, HardLink)
		}, "FS-23", "FS-19")},
		{c.holds(func(m Member) bool { return m.Type == Folder && safe(m) && m.Name != RootName }), model.SometimesStep(modesLast, func(from State, _ action, to State) bool {
			return from.Modes != to.Modes && from.Placed == 1<<from.Members()-1
		}, "FS-20")},
		{c.Fills, model.SometimesStep(lateFull, func(_ State, a action, to State) bool {
			return a.ID == ArchivePlace && to.Verdict == Full
		}, "FS-11", "FS-10")},
		{c.Short, model.Sometimes(early, func(s State) bool { return s.Verdict == Full && s.Placed == 0 }, "FS-10")},
		{c.Old, model.Sometimes(oldKernel, func(s State) bool { return s.Old && s.Verdict == Broken }, "FS-18")},
	}
}

func (c *Config) holdsIn(s State, t Type) bool {
	for _, m := range s.Archive {
		if m.Type == t {
			return true
		}
	}
	return false
}
