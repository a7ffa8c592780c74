package execution

// OutputConfigs returns every configuration of the output model.
func OutputConfigs() []OutputConfig {
	all := []OutputConfig{outputWhole, outputReaders}
	all = append(all, OutputReplays()...)
	for d := OutputSpecified + 1; d < outputDeviations; d++ {
		c := outputFaulty
		if d == SharedCursor {
			c.Readers, c.Liveness = 2, false // a second reader multiplies the space
		}
		c.Name, c.Deviation = "output-deviation-"+outputDeviationName[d], d
		all = append(all, c)
	}
	return all
}

func (c OutputConfig) sentence() string {
	if c.Deviation != OutputSpecified {
		return outputDeviationText[c.Deviation]
	}
	return outputSentences[c.Name]
}

var outputSentences = map[string]string{
	"output-whole":         "one reader of six units with a ring of two, a survivor that goes on writing, cuts, polls and an ack",
	"output-readers":       "two readers of four units with a ring of two, cut and attached again at every point",
	"output-replay-binary": "two readers that attach at every point while nothing holds the daemon back",
	"output-replay-cut":    "one reader that is cut and resumes at every point while nothing holds the daemon back",
	"output-replay-gate":   "two readers with every publication and every event held until it is let go",
	"output-replay-linger": "one reader and a survivor that writes during and after the linger",
}

// The specified configurations. The bounds: with a ring of two units, four
// show a reader that falls behind by one ring; six show it twice.
var (
	outputWhole = OutputConfig{
		Name: "output-whole", Units: 6, Ring: 2, Head: 1, Unread: 2, Readers: 1, Offsets: []uint8{0, 1, 3, 6},
		Holder: true, Acks: true, Polls: true, Cuts: true, Liveness: true,
	}
	outputReaders = OutputConfig{
		Name: "output-readers", Units: 4, Ring: 2, Head: 1, Unread: 2, Readers: 2, Offsets: []uint8{0, 1, 3}, Cuts: true,
	}
	outputFaulty = OutputConfig{
		Name: "output-faulty", Units: 4, Ring: 2, Head: 1, Unread: 2, Readers: 1, Offsets: []uint8{0, 3},
		Holder: true, Acks: true, Polls: true, Cuts: true, Liveness: true,
	}
)

// OutputReplays returns the configurations whose whole graphs are driven on the
// real daemon.
func OutputReplays() []OutputConfig {
	return []OutputConfig{
		{Name: "output-replay-binary", Units: 3, Ring: 1, Head: 1, Unread: 1, Readers: 2, Offsets: []uint8{0, 2}, Acks: true, Settled: true},
		{Name: "output-replay-cut", Units: 4, Ring: 2, Head: 1, Unread: 1, Readers: 1, Offsets: []uint8{0, 3}, Acks: true, Polls: true, Cuts: true, Settled: true},
		{Name: "output-replay-gate", Units: 3, Ring: 1, Head: 1, Unread: 1, Readers: 2, Offsets: []uint8{0}},
		{Name: "output-replay-linger", Units: 3, Ring: 2, Head: 1, Unread: 1, Readers: 1, Offsets: []uint8{0}, Holder: true, Polls: true, Cuts: true, Settled: true},
	}
}
