package manager

// The specified configurations, in the sizes that the published prototype was
// counted in. Two runs are needed to queue and to use a token again, two
// connections to see one ending twice and to divide an attach.
//
// The prototype's distinct states, and why this model has others:
//
//	one  1 run  × 1 connection  × {none, t} × 1 restart × 1 disconnect    3,034, here   4,870
//	pair 1 run  × 2 connections × {t}       × 1 restart × 1 disconnect   52,138, here 160,010
//	two  2 runs × 1 connection  × {none, t}                              67,819, here 169,358
//
// Its largest, "two" with a restart and a disconnect (646,340), has 1,084,768
// states here and holds; "two-restart" is the part of it that the others lack.
// This model has a request that does not validate as a kind of its own and a
// phase between the exit and its publication, remembers the first stop, whether
// a permit was ever held, what a client has read and what it is owed, answers
// repeats and attaches of a connection that is subscribed, and refuses requests
// once a shutdown has nothing left to stop. On the other side, a released run is
// forgotten whole.
var specified = []Config{
	{Name: "one", Runs: 1, Conns: 1, Tokens: []uint8{0, 1}, Restarts: 1, Disconnects: 1, Liveness: true},
	{Name: "pair", Runs: 1, Conns: 2, Tokens: []uint8{1}, Restarts: 1, Disconnects: 1},
	{Name: "pair-symmetric", Runs: 1, Conns: 2, Tokens: []uint8{1}, Restarts: 1, Disconnects: 1, Symmetric: true},
	{Name: "two", Runs: 2, Conns: 1, Tokens: []uint8{0, 1}, Liveness: true},
	{Name: "two-restart", Runs: 2, Conns: 1, Tokens: []uint8{0, 1}, Restarts: 1, NoTime: true},
}

// Replays returns the configurations that are driven on the real manager. Those
// named binary hold neither time nor a forced interleaving.
func Replays() []Config {
	return []Config{
		{Name: "replay-binary-one", Runs: 1, Conns: 1, Tokens: []uint8{0, 1}, Restarts: 1, Disconnects: 1, NoTime: true, Settled: true},
		{Name: "replay-binary-two", Runs: 2, Conns: 2, Tokens: []uint8{0, 1}, NoTime: true, Settled: true, Eager: true},
		{Name: "replay-queue", Runs: 3, Conns: 1, Permits: 2, Tokens: []uint8{0}, Kinds: []Kind{Plain, Big}, NoTime: true, Settled: true, Eager: true},
		{Name: "replay-clock", Runs: 2, Conns: 1, Tokens: []uint8{0}, Settled: true},
		{Name: "replay-gate-one", Runs: 1, Conns: 1, Tokens: []uint8{0, 1}, Restarts: 1, Disconnects: 1},
		{Name: "replay-gate-two", Runs: 2, Conns: 2, Tokens: []uint8{0, 1}, NoTime: true, Eager: true},
		{Name: "replay-gate-pair", Runs: 1, Conns: 2, Tokens: []uint8{1}, Disconnects: 1},
	}
}

var sentences = map[string]string{
	"one":               "one run, one connection, requests with and without a token, one restart, one disconnect",
	"pair":              "one run with a token and two connections, one restart, one disconnect of each",
	"pair-symmetric":    "the same, with connections that differ by their number taken for one",
	"two":               "two runs that share a permit, and one connection",
	"two-restart":       "two runs that share a permit, one connection, one restart, no time",
	"replay-queue":      "three runs, plain and big ones, that share two permits",
	"replay-binary-one": "one run of a manager that nothing holds back",
	"replay-binary-two": "two runs and two connections of a manager that nothing holds back, whose clients read at once",
	"replay-clock":      "two runs of a manager that nothing holds back, with deadlines and retentions",
	"replay-gate-one":   "one run with every step of the manager held until it is let go",
	"replay-gate-two":   "two runs and two connections with every step of the manager held until it is let go, whose clients read at once",
	"replay-gate-pair":  "one run and two connections with every step of the manager held until it is let go",
}

// Configs returns every configuration of the run model: specified, replayed,
// and one for each deviation.
func Configs() []Config {
	out := append([]Config(nil), specified...)
	for _, c := range Replays() {
		if c.Name != "replay-gate-one" { // that is "one"
			out = append(out, c)
		}
	}
	for _, d := range Deviations() {
		out = append(out, d.base())
	}
	return out
}

// sentence says what a configuration is for.
func (c *Config) sentence() string {
	if c.Deviation != Specified {
		return c.Deviation.String()
	}
	return sentences[c.Name]
}
