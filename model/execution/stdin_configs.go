package execution

// StdinConfigs returns every configuration of the stdin model.
func StdinConfigs() []StdinConfig {
	all := []StdinConfig{stdinWhole}
	all = append(all, StdinReplays()...)
	for d := StdinSpecified + 1; d < stdinDeviations; d++ {
		c := stdinWhole
		c.Name, c.Deviation = "stdin-deviation-"+stdinDeviationName[d], d
		all = append(all, c)
	}
	return all
}

func (c StdinConfig) sentence() string {
	if c.Deviation != StdinSpecified {
		return stdinDeviationText[c.Deviation]
	}
	return stdinSentences[c.Name]
}

var stdinSentences = map[string]string{
	"stdin-whole":         "two writers, three requests of up to two units, a pipe of two units, ends of file, stalls, an exec with and one without stdin",
	"stdin-replay-binary": "requests that never fill the pipe",
	"stdin-replay-clock":  "requests that stall and time out, and a second writer that waits for its turn",
}

// The specified configuration. The bounds: with a pipe of two units, a request
// of two stalls whole, in its middle, or not at all; the third request meets
// what the first two left.
var stdinWhole = StdinConfig{
	Name: "stdin-whole", Writers: 2, Requests: 3, Units: 2, Pipe: 2, Ends: true, Refused: true, Time: true, Liveness: true,
}

// StdinReplays returns the configurations whose whole graphs are driven on the
// real daemon.
func StdinReplays() []StdinConfig {
	return []StdinConfig{
		{Name: "stdin-replay-binary", Writers: 1, Requests: 2, Units: 1, Pipe: 2, Ends: true, Refused: true, Settled: true},
		{Name: "stdin-replay-clock", Writers: 2, Requests: 2, Units: 2, Pipe: 1, Ends: true, Time: true, Settled: true},
	}
}
