package verify

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// edge allows packages below From to import packages below To, each named from the module's root.
type edge struct{ From, To, Why string }

// edges are the only imports between the top-level parts of the module. What is not here is refused.
var edges = []edge{
	{"model", "model", "models, ports and commands stand on the checker"},
	{"spec", "spec", "the command renders what the package reads"},
	{"agentd/execution", "agentd/trace", "the core reports its transitions and knows neither front door"},
	{"agentd", "agentd", "the daemon is made of its own parts"},
	{"client", "agentd/api", "wire types are shared, so that drift does not compile"},
	{"client", "agentd/tunnel", "handshake and record layer are shared"},
	{"client", "agentd/calldata", "the manager's encoding is shared"},
	{"client", "client", "the command uses the library"},
	{"conformance", "conformance", "drivers share one frame"},
	{"conformance", "model", "paths and sequential specifications are the models'"},
	{"conformance", "agentd", "gated paths drive the daemon in the test process"},
	{"conformance", "client", "the client is driven, too"},
	{"verify", "verify", "the command runs the stages"},
	{"verify", "spec", "the matrix joins requirements"},
	{"verify", "model", "the matrix joins the checker's reports"},
}

// closed are parts whose own imports are narrower than edges say: everything not listed is refused.
var closed = map[string][]string{
	// The core must not learn of HTTP, nor of the daemon around it.
	"agentd/execution": {"agentd/execution", "agentd/trace"},
	"agentd/trace":     {"agentd/trace"},
	// The manager's payloads are written in its encoding, which knows nothing of them.
	"agentd/api":      {"agentd/api", "agentd/calldata"},
	"agentd/calldata": {"agentd/calldata"},
	// conform judges any daemon: it must not hold ours.
	"conformance/cmd/conform": {"conformance", "model", "agentd/api", "agentd/trace", "client"},
	// verify reads reports; running the models is the checker's business.
	"verify": {"verify", "spec", "model"},
}

func below(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// refusal says why pkg must not import imported, or "".
func refusal(pkg, imported string) string {
	for dir, only := range closed {
		if !below(pkg, dir) {
			continue
		}
		ok := false
		for _, o := range only {
			ok = ok || below(imported, o)
		}
		if !ok {
			return dir + " may import only " + strings.Join(only, ", ")
		}
	}
	if strings.Contains(imported, "/internal/") && !below(pkg, "agentd") {
		return "agentd/internal is out of reach of everyone else"
	}
	for _, e := range edges {
		if below(pkg, e.From) && below(imported, e.To) {
			return ""
		}
	}
	return "no edge allows it"
}

// TestImportsRunOneWay holds every import of the module to the edges above.
func TestImportsRunOneWay(t *testing.T) {
	t.Attr("requirement", "VERIFY-22")
	seen := 0
	eachGoFile(t, func(rel string, _ []byte) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", rel), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range file.Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if imported, ok := strings.CutPrefix(p, modulePath+"/"); ok {
				seen++
				if why := refusal(path.Dir(rel), imported); why != "" {
					t.Errorf("%s imports %s: %s", rel, imported, why)
				}
			}
		}
	})
	if seen == 0 {
		t.Error("no import between packages was seen")
	}
}

func TestImportsRefused(t *testing.T) {
	t.Attr("requirement", "VERIFY-22")
	for _, tc := range [][2]string{
		{"agentd/execution", "agentd/api"}, {"spec", "model"}, {"model/bootstrap", "agentd/trace"}, {"client", "agentd"},
		{"client", "agentd/internal/hooks"}, {"verify", "conformance/replay"}, {"conformance/cmd/conform", "agentd"}, {"agentd", "client"},
	} {
		if refusal(tc[0], tc[1]) == "" {
			t.Errorf("%s may import %s, and must not", tc[0], tc[1])
		}
	}
}

// eachGoFile calls f for each Go file of the module, with its path from the root and its text.
func eachGoFile(t *testing.T, f func(rel string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != ".." && (strings.HasPrefix(n, ".") || n == "testdata" || n == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") {
			rel, err := filepath.Rel("..", p)
			if err != nil {
				return err
			}
			f(filepath.ToSlash(rel), readFile(t, p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
