package transfer

// safe applies the lexical rules to one member. No link is followed, whatever
// the tree looks like.
func safe(m Member) bool {
	if m.Type == Device || m.Parent == Above || m.Parent == Rooted {
		return false
	}
	if m.Name == RootName {
		return m.Type == Folder && m.Parent == NoParent
	}
	switch m.Type {
	case Symlink: // relative to the folder that holds the link
		return m.Target == Dot || m.Target == Up && m.Parent != NoParent
	case HardLink: // relative to the root
		return m.Target == TargetF || m.Target == TargetDF
	}
	return true
}

// judge is the verdict on the whole archive before anything is placed;
// NoVerdict lets it go on.
func (c *Config) judge(s *State) Verdict {
	size := uint8(0)
	for i, m := range s.Archive[:s.Members()] {
		if !safe(m) && c.Deviation != KernelOnly {
			return Unsafe
		}
		if c.Deviation == LinksRefused && m.Type == Symlink {
			return Unsafe
		}
		size += m.Size
		if c.above(uint8(i)+1, c.MaxMembers, MemberCapLow, MemberCapHigh) || c.above(size, c.MaxSize, SizeCapLow, SizeCapHigh) {
			return TooMuch
		}
	}
	return NoVerdict
}

// above holds a count against a cap, which is inclusive.
func (c *Config) above(count, limit uint8, low, high Deviation) bool {
	switch c.Deviation {
	case low:
		return count >= limit
	case high:
		return count > limit+1
	}
	return count > limit
}

// end ends the upload.
func (s *State) end(v Verdict) { s.Phase, s.Verdict = Ended, v }

// begin goes on to the member that is next, or to the modes.
func (c *Config) begin(s *State) {
	s.Parent, s.Source = None, None
	for i := range s.Members() {
		if s.Placed&(1<<i) == 0 {
			s.At, s.Phase = i, BeforeMember
			return
		}
	}
	c.nextMode(s)
}

// placed ends a member's turn.
func (c *Config) placed(s *State) {
	s.Placed |= 1 << s.At
	c.begin(s)
}

// member begins a member's turn.
func (c *Config) member(s *State) {
	m := s.Archive[s.At]
	if c.Deviation == JudgedInTurn && !safe(m) {
		s.end(Unsafe)
		return
	}
	if !safe(m) { // KernelOnly
		switch {
		case m.Parent >= Above, m.Type == HardLink:
			s.end(Unsafe) // the kernel confines
			return
		case m.Name == RootName, m.Target == NoTarget && m.Type == Symlink:
			s.end(Broken)
			return
		}
	}
	if m.Name == RootName {
		c.placed(s) // the root is there
		return
	}
	s.need(m.Parent, BeforeParent, BeforePlace)
}

// need goes on to the phase held where the folder of the parent is held, and to
// the phase resolve where it is to be resolved first. Only the folders of the
// last path are held.
func (s *State) need(p Parent, resolve, held Phase) {
	s.Phase = held
	switch {
	case p == NoParent:
		s.Held, s.Parent = None, Root
	case s.Held != None && s.HeldName == p.name():
		s.Parent = s.Held
	default:
		s.Held, s.Parent, s.Phase = None, None, resolve
	}
}

// hold keeps the handle of a folder that was resolved below the root.
func (s *State) hold(n Node, name uint8) { s.Held, s.HeldName = n, name }

// enter resolves one component below a handle, without a symbolic link, and
// makes the folder that is missing.
func (c *Config) enter(s *State, at Node, name uint8, create bool) (Node, Verdict) {
	n := s.Tree[at][name]
	switch {
	case n == None && create && !s.gone(at):
		return s.make(at, name), NoVerdict
	case n.folder():
		return n, NoVerdict
	case !n.link():
		return None, Broken
	case c.Deviation == LexicalOnly || (c.Deviation == OldKernelFallback && s.Old):
		if to := s.follow(at, n); to.folder() {
			return to, NoVerdict
		}
		return None, Broken
	}
	return None, Unsafe
}

// resolveStep resolves the component that the upload stands before.
func (c *Config) resolveStep(s *State) {
	m := s.Archive[s.At]
	switch s.Phase {
	case BeforeParent:
		n, v := c.enter(s, Root, m.Parent.name(), true)
		if v != NoVerdict {
			s.end(v)
			return
		}
		s.hold(n, m.Parent.name())
		s.Parent, s.Phase = n, BeforePlace
	case BeforeEnter:
		n, v := c.enter(s, s.Parent, m.Name, false)
		if v != NoVerdict {
			s.end(v)
			return
		}
		if m.Parent == NoParent {
			s.hold(n, m.Name)
		}
		if c.Deviation == ModesAtOnce {
			s.Modes[n] = true
		} else {
			s.Waiting |= 1 << s.At
		}
		c.placed(s)
	case BeforeSource:
		n, v := c.enter(s, Root, D, false)
		if v != NoVerdict {
			s.end(v)
			return
		}
		s.hold(n, D)
		c.source(s, n)
	case BeforeLink:
		n, v := c.enter(s, Root, m.Parent.name(), false)
		if v != NoVerdict {
			s.end(v)
			return
		}
		s.hold(n, m.Parent.name())
		s.Parent = n
		c.link(s)
	case BeforeModeParent:
		n, v := c.enter(s, Root, m.Parent.name(), false)
		if v != NoVerdict {
			c.moded(s) // the folder is not where it was: tolerated
			return
		}
		s.hold(n, m.Parent.name())
		s.Parent = n
		c.applyMode(s)
	}
}

// FirstUnsafe returns the position of the first member that the lexical rules
// refuse, which is the one that a refusal names; 0 where there is none.
func FirstUnsafe(s State) int {
	for i, m := range s.Archive[:s.Members()] {
		if !safe(m) {
			return i
		}
	}
	return 0
}
