package transfer

import "microvms/model"

// guest appends what another process of the guest may do to the tree: to the
// entries of the root, and to those of the folder that is the root's d. What it
// plants leads out of the root, to what members of that name would be
// redirected to.
func (c *Config) guest(s State, out []model.Step[State]) []model.Step[State] {
	if c.Fills && !s.Short {
		next := s
		next.Short = true
		out = append(out, model.Step[State]{Action: model.Act(GuestFill), State: next})
	}
	if s.Acts >= c.Acts {
		return out
	}
	places := []Node{Root}
	if d := s.Tree[Root][D]; d.folder() {
		places = append(places, d)
	}
	for _, at := range places {
		for name := range uint8(names) {
			out = guestAt(s, at, name, out)
		}
	}
	return out
}

func guestAt(s State, at Node, name uint8, out []model.Step[State]) []model.Step[State] {
	there := s.Tree[at][name]
	add := func(action uint16, next State) {
		next.Acts++
		out = append(out, model.Step[State]{Action: model.Act(action, uint8(at), name), State: next})
	}
	planted := LinkFolder
	if at != Root {
		planted = LinkFile
	}
	if there != planted && (!there.folder() || s.Moved == None) {
		next := s
		if there.folder() {
			next.Moved = there
		}
		next.Tree[at][name] = planted
		add(GuestPlant, next)
	}
	if there != None {
		next := s
		next.remove(at, name)
		add(GuestRemove, next)
	}
	if !there.folder() && there != CanaryFile {
		next := s
		next.Tree[at][name], next.Linked = CanaryFile, true
		add(GuestLink, next)
	}
	if !there.folder() && s.Made < MaxFolders {
		next := s
		next.make(at, name)
		add(GuestFolder, next)
	}
	return out
}
