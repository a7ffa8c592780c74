package spec

import (
	"fmt"
	"strings"
)

// Severity says whether a finding fails the lint.
type Severity string

// Severities. A warning fails under [Report.Strict] only.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Code is one kind of finding.
//
// VERIFY-27: the table is append-only, since waivers and reports name a code.
type Code struct {
	ID       string // "SPEC-L010"
	Severity Severity
	Title    string // what is wrong, for the table in CODES.md
	Remedy   string // what to do
}

// The codes: L0xx sentences, L1xx the set, L2xx the glossary, L3xx waivers, L4xx
// reviews.
const (
	CodePattern     = "SPEC-L001"
	CodeClauseOrder = "SPEC-L002"
	CodeShall       = "SPEC-L003"
	CodeSystem      = "SPEC-L004"
	CodeTerm        = "SPEC-L005"
	CodeAlias       = "SPEC-L006"
	CodeQuoted      = "SPEC-L007"
	CodeVague       = "SPEC-L008"
	CodeEscape      = "SPEC-L009"
	CodePassive     = "SPEC-L010"
	CodePronoun     = "SPEC-L011"
	CodeAbsolute    = "SPEC-L012"
	CodeQuantifier  = "SPEC-L013"
	CodeOpenList    = "SPEC-L014"
	CodeSlash       = "SPEC-L015"
	CodeParenthesis = "SPEC-L016"
	CodeCombinator  = "SPEC-L017"
	CodePurpose     = "SPEC-L018"
	CodeUnit        = "SPEC-L019"
	CodeDecimal     = "SPEC-L020"
	CodeLength      = "SPEC-L021"
	CodeInfinitive  = "SPEC-L022"
	CodeModal       = "SPEC-L023"
	CodeForm        = "SPEC-L024"
	CodeRationale   = "SPEC-L025"
	CodeSource      = "SPEC-L026"
	CodeStrength    = "SPEC-L027"
	CodeLayers      = "SPEC-L028"
	CodeHead        = "SPEC-L029"
	CodeIdeas       = "SPEC-L030"
	CodeStatus      = "SPEC-L031"
	CodeTestLayer   = "SPEC-L032"

	CodeDuplicateID   = "SPEC-L101"
	CodeID            = "SPEC-L102"
	CodeOrder         = "SPEC-L103"
	CodeDuplicate     = "SPEC-L104"
	CodeNearDuplicate = "SPEC-L105"
	CodeContradiction = "SPEC-L106"
	CodeDangling      = "SPEC-L107"
	CodeCycle         = "SPEC-L108"
	CodeRetired       = "SPEC-L109"
	CodeReplacement   = "SPEC-L110"
	CodeTitle         = "SPEC-L111"

	CodeOrphanTerm    = "SPEC-L201"
	CodeDuplicateTerm = "SPEC-L202"
	CodeDefinition    = "SPEC-L203"

	CodeWaiverTarget   = "SPEC-L301"
	CodeWaiverReason   = "SPEC-L302"
	CodeWaiverEnded    = "SPEC-L303"
	CodeWaiverNeedless = "SPEC-L304"
	CodeWaiverForm     = "SPEC-L305"
	CodeWaiverOwner    = "SPEC-L306"

	CodeChanged    = "SPEC-L401"
	CodeUnreviewed = "SPEC-L402"
	CodeStray      = "SPEC-L403"
)

var codes = []Code{
	{CodePattern, Error, "the pattern does not fit the clauses", "change the pattern, or add or remove the clause"},
	{CodeClauseOrder, Error, "a clause contains a keyword or joint of the grammar, so the sentence reads back differently", "move the condition into its own clause, in the order where, while, when or if"},
	{CodeShall, Error, "the sentence does not hold exactly one \"shall\"", "write one requirement a sentence; the keyword is rendered, not written"},
	{CodeSystem, Error, "the system is not in the closed list of spec.toml", "name one of the systems"},
	{CodeTerm, Error, "a capitalised word is not in the glossary", "define the term in glossary.toml, or write a literal in backquotes"},
	{CodeAlias, Error, "an alias is used in place of its term", "use the canonical name"},
	{CodeQuoted, Error, "quoted text is neither a term nor a literal", "define the term, or write a literal in backquotes"},
	{CodeVague, Error, "a vague word: nobody can tell when it is met", "say what can be measured"},
	{CodeEscape, Error, "an escape clause", "state the condition, or remove it"},
	{CodePassive, Error, "the response is in the passive voice", "say what the system does"},
	{CodePronoun, Error, "a pronoun: the reader has to guess the noun", "repeat the noun"},
	{CodeAbsolute, Error, "an absolute that nobody can test", "state the bound or the condition"},
	{CodeQuantifier, Error, "a quantifier that leaves open whether one by one or together", "use \"each\", or name the things"},
	{CodeOpenList, Error, "a list without an end", "list what is meant"},
	{CodeSlash, Error, "a slash or \"and/or\"", "write \"and\" or \"or\"; a path belongs in backquotes"},
	{CodeParenthesis, Error, "parentheses", "move the remark to the rationale"},
	{CodeCombinator, Error, "a combinator: a second requirement hides behind it", "split the requirement"},
	{CodePurpose, Error, "a purpose", "move it to the rationale"},
	{CodeUnit, Error, "a number without a unit", "add a known unit, or say what is counted: bytes, seconds, percent, \"answer 404\", \"exit code 2\""},
	{CodeDecimal, Error, "a number in another format than plain decimal", "write 65536 or 0.5, without thousands separators or bare points"},
	{CodeLength, Error, fmt.Sprintf("the sentence has more than %d words", maxWords), "split the requirement, or shorten it"},
	{CodeInfinitive, Error, "an ability or an attempt in place of an action", "say what the system does"},
	{CodeModal, Error, "a modal verb beside \"shall\"", "use the present tense in conditions, and \"shall\" for the response"},
	{CodeForm, Error, "a clause is malformed: capital at the start, punctuation at the end, line break or doubled space", "write plain clause text; keywords and punctuation are rendered"},
	{CodeRationale, Error, "no rationale, or one that says nothing", "say why, in a sentence of its own"},
	{CodeSource, Error, "no source with its section", "write it as \"wire facts, section 7.2\"; join several by \"; \""},
	{CodeStrength, Error, "an unknown strength", "use S1, S2, S3 or S4"},
	{CodeLayers, Error, "the layers are empty, unknown, repeated or out of order", "list them in the order model, replay, history, hostile, test, fault"},
	{CodeHead, Error, "a kind of a head term that the glossary does not know", "define the kind in glossary.toml, or use a known one"},
	{CodeIdeas, Error, "the response holds more than one idea", "split the requirement"},
	{CodeStatus, Error, "an unknown status", "use draft, approved or retired"},
	{CodeTestLayer, Error, "an approved requirement does not require the test layer", "require it, and waive it for a time if it must be"},

	{CodeDuplicateID, Error, "the id is taken", "use the next free number; retired ids stay taken"},
	{CodeID, Error, "the id is malformed or belongs to another file", "write FAMILY-NUMBER in the file named after the family"},
	{CodeOrder, Error, "the ids of a file are out of order", "sort the file by number"},
	{CodeDuplicate, Error, "two requirements say the same", "retire one of them"},
	{CodeNearDuplicate, Warning, "two requirements say nearly the same", "merge them, or make the difference plain"},
	{CodeContradiction, Error, "two requirements answer one trigger in ways that cannot hold together", "separate the triggers, or retire one"},
	{CodeDangling, Error, "an edge to a requirement that does not exist", "correct the id"},
	{CodeCycle, Error, "the edges form a cycle", "remove one of them"},
	{CodeRetired, Error, "an edge to a retired requirement", "point to its replacement"},
	{CodeReplacement, Error, "a retired requirement is replaced by an unknown or retired one, or one in force names a replacement", "correct replaced_by"},
	{CodeTitle, Error, "a family has no title", "add title to its file"},

	{CodeOrphanTerm, Error, "a term that no sentence or definition uses", "remove it from the glossary"},
	{CodeDuplicateTerm, Error, "a name or alias stands for two terms", "keep one of them"},
	{CodeDefinition, Error, "a term has no definition", "define it"},

	{CodeWaiverTarget, Error, "a waiver for an unknown requirement, layer or code", "correct it"},
	{CodeWaiverReason, Error, "a waiver without a reason", "say why the debt is accepted"},
	{CodeWaiverEnded, Error, "a waiver that has ended", "pay the debt, or renew the waiver with a new reason"},
	{CodeWaiverNeedless, Error, "a waiver that is no longer needed", "remove it"},
	{CodeWaiverForm, Error, "a waiver without exactly one of layer and code, or without the version at which it ends", "write until = \"1.2.0\": a version, never a date"},
	{CodeWaiverOwner, Error, "a waiver without the package that owes the work", "write owner = \"agentd/execution\""},

	{CodeChanged, Error, "the text changed since its last review", "read the requirement and what cites it; then `spec review ID`"},
	{CodeUnreviewed, Error, "the text was never reviewed", "read it; then `spec review ID`"},
	{CodeStray, Error, "a review of a requirement that does not exist", "run `spec review` to drop it"},
}

// Codes returns the table of findings in its fixed order. The slice is the
// caller's.
func Codes() []Code { return append([]Code(nil), codes...) }

func codeOf(id string) Code {
	for _, c := range codes {
		if c.ID == id {
			return c
		}
	}
	panic("spec: internal error: unknown finding code " + id)
}

// Finding is one thing that is wrong.
type Finding struct {
	Code        string   `json:"code"`
	Severity    Severity `json:"severity"`
	Requirement string   `json:"requirement,omitempty"` // id, empty for glossary terms
	File        string   `json:"file,omitempty"`        // within spec/
	Line        int      `json:"line,omitempty"`
	Message     string   `json:"message"`
	Waived      string   `json:"waived,omitempty"` // the reason of the waiver in force
}

// String prints the finding as compilers do, so that editors find the place.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d: %s %s", f.File, f.Line, f.Severity, f.Code)
	if f.Requirement != "" {
		b.WriteString(" " + f.Requirement)
	}
	b.WriteString(": " + f.Message)
	if f.Waived != "" {
		b.WriteString(" (waived: " + f.Waived + ")")
	}
	return b.String()
}
