package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// events renders a stream of `go test -json`: each word pair is "Action Test[ Key=Value]".
func events(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		f := strings.Fields(l)
		extra := ""
		if len(f) > 2 {
			extra = fmt.Sprintf(`,"Key":"requirement","Value":%q`, f[2])
		}
		fmt.Fprintf(&b, `{"Action":%q,"Package":"microvms/agentd","Test":%q%s}`+"\n", f[0], f[1], extra)
	}
	return b.String()
}

// TestClaimsCount checks which claims are evidence: only those of tests that passed and skipped no subtest.
func TestClaimsCount(t *testing.T) {
	t.Attr("requirement", "VERIFY-6")
	for _, tc := range []struct {
		name   string
		stream string
		want   map[string][]string
	}{
		{"passed", events("run TestA", "attr TestA AGENTD-2", "pass TestA"), map[string][]string{"AGENTD-2": {"agentd:TestA"}}},
		{"failed", events("run TestA", "attr TestA AGENTD-2", "fail TestA"), map[string][]string{}},
		{"skipped", events("run TestA", "attr TestA AGENTD-2", "skip TestA"), map[string][]string{}},
		{"skipped a subtest", events("run TestA", "attr TestA AGENTD-2", "run TestA/x", "run TestA/x/y", "skip TestA/x/y", "pass TestA/x", "pass TestA"), map[string][]string{}},
		{"died", events("run TestA", "attr TestA AGENTD-2"), map[string][]string{}},
		{"claimed by a subtest beside a skipped one", events("run TestA", "run TestA/x", "attr TestA/x AGENTD-3", "pass TestA/x", "run TestA/y", "skip TestA/y", "pass TestA"),
			map[string][]string{"AGENTD-3": {"agentd:TestA/x"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run, err := ParseTests(strings.NewReader(tc.stream), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, run.Claims()); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseTestsKeepsWhatWentWrong(t *testing.T) {
	t.Attr("requirement", "VERIFY-21")
	stream := `{"Action":"build-output","ImportPath":"microvms/spec","Output":"undefined: x\n"}
{"Action":"build-fail","ImportPath":"microvms/spec"}
not an event
{"Action":"run","Package":"microvms/agentd","Test":"TestB"}
{"Action":"output","Package":"microvms/agentd","Test":"TestB","Output":"boom\n"}
{"Action":"fail","Package":"microvms/agentd","Test":"TestB","Elapsed":0.5}
{"Action":"fail","Package":"microvms/agentd"}
`
	run, err := ParseTests(strings.NewReader(stream), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := Stage{Name: "tests"}
	judgeTests(run, Options{}, &s)
	text := strings.Join(s.Problems, "\n")
	for _, want := range []string{"package spec failed outside its tests: undefined: x", "agentd:TestB failed: boom"} {
		if !strings.Contains(text, want) {
			t.Errorf("problems lack %q:\n%s", want, text)
		}
	}
}

func TestSkipsFailOnlyWhenAsked(t *testing.T) {
	t.Attr("requirement", "VERIFY-25")
	run, err := ParseTests(strings.NewReader(events("run TestA", "pass TestA", "run TestB", "skip TestB")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, strict := range []bool{false, true} {
		s := Stage{Name: "tests"}
		judgeTests(run, Options{FailOnSkip: strict}, &s)
		if got := len(s.Problems) > 0; got != strict {
			t.Errorf("with FailOnSkip %v the problems are %q", strict, s.Problems)
		}
	}
}
