package execution

import "microvms/model"

// fairness assumes that the daemon goes on, that its timers fire, and nothing
// about clients or processes. Each daemon step of each id is fair by itself: an
// exec is not held up by another.
func (g group) fairness() []model.Fairness {
	var all []model.Fairness
	fair := func(name string, id uint8, action uint16, cause int) {
		all = append(all, model.Fairness{Name: name, Match: func(a model.Action) bool {
			return a.ID == action && a.Arg[0] == id && (cause < 0 || int(a.Arg[1]) == cause)
		}})
	}
	for id := range uint8(g.c.IDs) {
		for _, action := range []uint16{ExecSpawn, ExecRefuse, LeaderReap, ExecExit, LingerExpire} {
			fair(groupActionNames[action], id, action, -1)
		}
		for _, action := range []uint16{GroupTerm, GroupKill, GroupGone, GraceExpire} {
			for cause := range int(causes) {
				fair(groupActionNames[action]+" by "+[]string{"deadline", "reap", "kill"}[cause], id, action, cause)
			}
		}
	}
	return all
}

// liveness returns the properties that need fairness.
func (g group) liveness() []groupProperty {
	var props []groupProperty
	for id := range uint8(g.c.IDs) {
		of := func(f func(e Exec) bool) func(s GroupState) bool {
			return func(s GroupState) bool { return f(s.Exec[id]) }
		}
		name := func(sentence string) string { return sentence + " (id " + string('0'+rune(id)) + ")" }
		props = append(props, model.LeadsTo(name("a start is answered"),
			of(func(e Exec) bool { return e.Phase == Reserved }),
			of(func(e Exec) bool { return e.Phase != Reserved }), "EXEC-1", "EXEC-5"))
		if g.offers(Timed) {
			props = append(props, model.LeadsTo(name("a deadline that passed leads to the exit"),
				of(func(e Exec) bool { return e.Deadline == Fired }),
				of(func(e Exec) bool { return e.Phase != Running }), "EXEC-31", "KILL-3"))
		}
		props = append(props, model.LeadsTo(name("the leader's end leads to the exit, within the linger"),
			of(func(e Exec) bool { return e.Phase == Running && e.Leader >= EndedItself }),
			of(func(e Exec) bool { return e.Phase != Running }), "EXEC-18", "EXEC-19", "KILL-3"))
		if g.c.Kills {
			props = append(props, model.LeadsTo(name("a kill is answered"),
				of(func(e Exec) bool { return e.Stage[ByKill] != Idle }),
				func(s GroupState) bool { return s.Off || s.Exec[id].Stage[ByKill] == Idle }, "KILL-1", "KILL-3"))
		}
	}
	return props
}
