package execstart

import "microvms/model"

// This file states who is refused, over the answers that were given and the
// children that were spawned. The predicates say what the requirements say, in
// their own words: they share no code with the rule that they judge.

// userFails says whether the user of a request does not resolve.
func userFails(image Image, r Request, seen Rows) bool {
	switch r.User {
	case UserUnknown:
		return true
	case UserNamed:
		return !seen.Has(NamedUserRow)
	case UserAbsent:
		return defaultFails(image, seen) || recordFails(image)
	}
	return false
}

func defaultFails(image Image, seen Rows) bool {
	switch image.Default {
	case DefaultDigitsNoRow, DefaultUnknown, DefaultEmpty:
		return true
	case DefaultNamed:
		return !seen.Has(DefaultUserRow)
	}
	return false
}

func recordFails(image Image) bool {
	return image.Default == DefaultUnset && image.Record == RecordBroken
}

func groupFails(r Request, seen Rows) bool {
	return r.Group == GroupUnknown || r.Group == GroupNamed && !seen.Has(NamedGroupRow)
}

// shellFails says whether the shell is found nowhere. A shell of the request's
// folder is found only where the request sets PATH.
func shellFails(r Request) bool {
	return r.Shell == ShellMissing || r.Shell == ShellRelative || r.Shell == ShellRequest && r.Flags&FlagPath == 0
}

// failures counts what of a request does not resolve.
func failures(image Image, r Request, seen Rows) int {
	n := 0
	for _, fails := range []bool{userFails(image, r, seen), groupFails(r, seen), shellFails(r)} {
		if fails {
			n++
		}
	}
	return n
}

// answersOwner returns the slot of a request that was resolved itself and is
// answered by the step.
func answersOwner(from State, a action) (Slot, bool) {
	if a.ID != ControlAnswer {
		return Slot{}, false
	}
	slot := from.Slots[a.Arg[0]]
	return slot, slot.Owner
}

// answered states that every request of a kind that was resolved is answered
// with the code.
func answered(name string, kind func(image Image, r Request, seen Rows) bool, code Code, witness string, ids ...string) property {
	of := func(from State, a action, _ State) bool {
		slot, ok := answersOwner(from, a)
		return ok && kind(from.Image, slot.Request, slot.Seen)
	}
	return model.AlwaysStep(name, func(from State, a action, to State) bool {
		return !of(from, a, to) || Code(a.Arg[1]) == code
	}, ids...).WhenStep(of).WitnessedBy(witness)
}

func (c *Config) refusalProperties() []conditional {
	unknown := c.has(UserUnknown)
	return []conditional{
		{unknown, answered("an unknown user is answered unknown_user", func(image Image, r Request, seen Rows) bool {
			return r.User != UserAbsent && userFails(image, r, seen)
		}, UnknownUser, "an unknown user is refused", "AGENTD-8")},
		{c.hasGroup(GroupUnknown), answered("an unknown group is answered unknown_group where the user resolves", func(image Image, r Request, seen Rows) bool {
			return !userFails(image, r, seen) && groupFails(r, seen)
		}, UnknownGroup, "an unknown group is refused", "AGENTD-8")},
		{c.hasShell(ShellMissing), answered("an unknown shell is answered unknown_shell where user and group resolve", func(image Image, r Request, seen Rows) bool {
			return !userFails(image, r, seen) && !groupFails(r, seen) && shellFails(r) && r.Shell != ShellRelative
		}, UnknownShell, "an unknown shell is refused", "AGENTD-15")},
		{c.hasShell(ShellRelative), answered("a relative path of a shell is answered unknown_shell", func(image Image, r Request, seen Rows) bool {
			return r.Shell == ShellRelative && !userFails(image, r, seen) && !groupFails(r, seen)
		}, UnknownShell, "a relative path of a shell is refused", "ACCOUNT-9")},
		{c.hasDefault(DefaultUnknown), answered("a default user that does not resolve is answered unknown_user", func(image Image, r Request, seen Rows) bool {
			return r.User == UserAbsent && defaultFails(image, seen)
		}, UnknownUser, "a default user without a row is refused", "EXEC-38")},
		{c.hasRecord(RecordBroken), answered("a record that cannot be used is answered unknown_user", func(image Image, r Request, _ Rows) bool {
			return r.User == UserAbsent && recordFails(image)
		}, UnknownUser, "a broken record is refused", "ACCOUNT-4")},
		{c.hasDefault(DefaultEmpty) && c.hasRecord(RecordRow), answered("an empty default user is answered unknown_user beside a record", func(image Image, r Request, _ Rows) bool {
			return r.User == UserAbsent && image.Default == DefaultEmpty && image.Record != RecordOff
		}, UnknownUser, "an empty default user is refused beside a record", "ACCOUNT-5")},
		{unknown && c.hasGroup(GroupUnknown), model.AlwaysStep("of several failures the first of user, group and shell decides", func(from State, a action, _ State) bool {
			slot, ok := answersOwner(from, a)
			if !ok || failures(from.Image, slot.Request, slot.Seen) < 2 {
				return true
			}
			if userFails(from.Image, slot.Request, slot.Seen) {
				return Code(a.Arg[1]) == UnknownUser
			}
			return Code(a.Arg[1]) == UnknownGroup
		}, "ACCOUNT-11").WhenStep(func(from State, a action, _ State) bool {
			slot, ok := answersOwner(from, a)
			return ok && failures(from.Image, slot.Request, slot.Seen) >= 2
		}).WitnessedBy("two failures are answered once")},
		{true, answered("a request that resolves is answered 200", func(image Image, r Request, seen Rows) bool {
			return failures(image, r, seen) == 0
		}, Started, "a start is answered 200", "AGENTD-7", "EXEC-1")},
		{true, ofChildren("no child stems from a request that does not resolve", func(State, Exec) bool { return true }, func(s State, e Exec) bool {
			return failures(s.Image, e.Request, e.Seen) == 0
		}, "a refused id stays unknown", "AGENTD-8", "AGENTD-15", "EXEC-6", "EXEC-38")},
	}
}
