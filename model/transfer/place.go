package transfer

// place makes the last component of the member in its turn.
func (c *Config) place(s *State) {
	m := s.Archive[s.At]
	if c.Deviation == ResolvedTwice && m.Parent != NoParent {
		// The name that was checked is resolved again, by a kernel that follows links.
		s.Parent = s.follow(Root, s.Tree[Root][m.Parent.name()])
		if !s.Parent.folder() {
			s.end(Broken)
			return
		}
	}
	switch m.Type {
	case Folder:
		c.placeFolder(s, m)
	case Symlink:
		to := LinkDot
		switch m.Target {
		case Up:
			to = LinkUp
		case Absolute:
			to = LinkFolder
		}
		if c.replace(s, m.Name, to) {
			c.placed(s)
		}
	case HardLink:
		if m.Target == TargetF {
			s.Held = None
			c.source(s, Root)
			return
		}
		s.need(InD, BeforeSource, BeforePlace)
		if s.Phase == BeforePlace {
			c.source(s, s.Parent)
		}
	default:
		c.placeFile(s, m)
	}
}

// placeFolder makes a folder, or takes the entry that is there, which is
// entered next.
func (c *Config) placeFolder(s *State, m Member) {
	if s.Tree[s.Parent][m.Name] == None {
		if s.gone(s.Parent) {
			s.end(Broken)
			return
		}
		s.make(s.Parent, m.Name)
	}
	s.Phase = BeforeEnter
}

// replace makes an entry after the one of its name is removed: it is never
// opened. It reports false when the upload ended instead.
func (c *Config) replace(s *State, name uint8, n Node) bool {
	if s.Tree[s.Parent][name].folder() || s.gone(s.Parent) {
		s.end(Broken)
		return false
	}
	s.Tree[s.Parent][name] = n
	return true
}

// placeFile makes a regular file with the member's bytes and mode.
func (c *Config) placeFile(s *State, m Member) {
	there := s.Tree[s.Parent][m.Name]
	if c.Deviation == LastFollowed && there.link() {
		there = s.follow(s.Parent, there)
		if there.file() {
			s.Content[there-CanaryFile] = s.At + 1
			c.placed(s)
			return
		}
	}
	if c.Deviation == Truncated && there.file() {
		s.Content[there-CanaryFile] = s.At + 1
		c.placed(s)
		return
	}
	if !c.replace(s, m.Name, fileOf+Node(s.At)) {
		return
	}
	if s.Short && m.Size > 0 {
		if c.Deviation != ReserveOnce && c.Deviation != ReserveUnchecked {
			s.Tree[s.Parent][m.Name] = None // half a file must not pass for a whole one
			s.end(Full)
			return
		}
		s.Wrote = true
	}
	s.Content[1+s.At] = s.At + 1
	c.placed(s)
}

// source opens what a hard link is to name, in the folder at.
func (c *Config) source(s *State, at Node) {
	m := s.Archive[s.At]
	n := s.Tree[at][F]
	if c.Deviation == SourceFollowed && n.link() {
		n = s.follow(at, n)
	}
	switch {
	case n == None:
		s.end(Broken)
		return
	case !n.file():
		s.end(Unsafe)
		return
	}
	s.Source = n
	s.need(m.Parent, BeforeLink, BeforePlace)
	if s.Phase == BeforePlace {
		c.link(s)
	}
}

// link gives the source one more name.
func (c *Config) link(s *State) {
	m := s.Archive[s.At]
	if s.Tree[s.Parent][m.Name] == s.Source {
		c.placed(s) // the same file already; to replace it could remove its last name
		return
	}
	lost := s.named(s.Source) == 0
	if !c.replace(s, m.Name, s.Source) {
		return
	}
	if lost {
		s.Tree[s.Parent][m.Name] = None // an inode without a name gets none again
		s.end(Broken)
		return
	}
	c.placed(s)
}

// nextMode goes on to the folder that is next to get its mode, deepest first,
// or ends the upload.
func (c *Config) nextMode(s *State) {
	s.Parent, s.Source = None, None
	for _, deep := range []bool{c.Deviation != ShallowFirst, c.Deviation == ShallowFirst} {
		for i, m := range s.Archive {
			if s.Waiting&(1<<i) != 0 && (m.Parent != NoParent) == deep {
				s.At, s.Phase = uint8(i), BeforeMode
				return
			}
		}
	}
	s.end(Fine)
}

// mode begins the turn of a folder's mode.
func (c *Config) mode(s *State) {
	s.need(s.Archive[s.At].Parent, BeforeModeParent, BeforeMode)
	if s.Phase == BeforeMode {
		c.applyMode(s)
	}
}

// applyMode gives a folder its mode by a handle that is resolved without a
// link. A failure is not the upload's.
func (c *Config) applyMode(s *State) {
	m := s.Archive[s.At]
	n := s.Tree[s.Parent][m.Name]
	if c.Deviation == ModeFollowed && n.link() {
		n = s.follow(s.Parent, n)
	}
	if n.folder() {
		s.Modes[n] = true
	}
	c.moded(s)
}

func (c *Config) moded(s *State) {
	s.Waiting &^= 1 << s.At
	c.nextMode(s)
}
