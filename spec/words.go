package spec

// The word lists of the linter. Each follows a rule of INCOSE's Guide to Writing
// Requirements, named by its number, as far as EARS leaves room for it.

// R7: a reader cannot tell when it is met.
var vagueWords = split(`acceptable; adequate; adequately; appropriate; appropriately; approximately; about; around; roughly
correct; correctly; proper; properly; reasonable; reasonably; sensible; suitable; sufficient; sufficiently; enough
easy; easily; efficient; efficiently; fast; quick; quickly; slow; slowly; robust; flexible; simple; user-friendly; seamless; intuitive
normal; normally; typical; typically; usual; usually; generally; often; frequently; sometimes; rarely; mostly; nearly; almost
some; many; few; various; numerous; multiple times; a lot of; significant; significantly; relevant; useful; good; bad; better; best
large; small; huge; timely; prompt; promptly; soon; immediately; instantly; gracefully; cleanly; smoothly; effectively; modern; state of the art
minimal; minimise; minimize; maximise; maximize; optimise; optimize; support; supports; handle; handles; process properly; deal with; take care of`)

// R8: the rule gives way when somebody says so.
var escapeClauses = split(`as far as possible; as much as possible; if possible; where possible; when possible; if necessary; where necessary
as necessary; as appropriate; if appropriate; where appropriate; if practicable; as required; if required; when required; as needed; if needed
where needed; to the extent; to the greatest extent; best effort; best-effort; in so far as; insofar as; wherever applicable; if applicable
preferably; ideally; unless otherwise stated; subject to; except when inconvenient`)

// R9: the list has no end.
var openLists = split(`etc; and so on; and so forth; and others; and the like; such as; including; includes; include; for example; for instance
e g; i e; among others; but not limited to; or similar; and more`)

// R10: ability instead of action.
var infinitives = split(`be able to; be capable of; be designed to; be configured to; be ready to; be used to; be intended to; have the ability to
have the capability to; provide the ability to; attempt to; try to; allow to; make sure; ensure; ensure that`)

// R19: a second requirement hides behind the word.
var combinators = split(`unless; but; otherwise; however; whereas; meanwhile; as well as; but also; on the other hand; in addition; additionally
furthermore; moreover; instead of; also; except`)

// R20: the purpose belongs into the rationale.
var purposes = split(`in order to; so that; so as to; because; since; thus; therefore; thereby; for the purpose of; to ensure; to avoid; to prevent; to allow; to make sure`)

// R24: the reader has to guess the noun.
var pronouns = split(`it; its; itself; they; them; their; theirs; themselves; this; these; those; he; she; his; her; we; us; our; you; your; i; my
such; same thing; the former; the latter; the above; the following; something; anything; everything; somebody; someone; anybody; everyone`)

// R26: nobody can test an absolute.
var absolutes = split(`always; never; forever; for ever; completely; totally; absolutely; entirely; perfectly; guarantee; guarantees; 100 percent; at all times; in all cases; under all circumstances; ever`)

// R32: "each" quantifies, the others leave open whether one by one or together.
var quantifiers = split(`all; any; every; both; either; neither; anywhere; everywhere; whatever; whichever; whenever; wherever`)

// Modal verbs beside "shall" make a second, weaker requirement.
var modals = split(`may; might; can; could; should; would; will; must; ought to; need to; needs to; has to; have to; cannot`)

// R2: the forms of "be" that a participle turns into a passive.
var beForms = map[string]bool{"be": true, "is": true, "are": true, "was": true, "were": true, "been": true, "being": true}

// irregularParticiples are those that do not end in -ed. "set" and "read" stand
// for their passives only after a form of be.
var irregularParticiples = map[string]bool{"sent": true, "kept": true, "given": true, "taken": true, "made": true, "done": true,
	"written": true, "read": true, "set": true, "held": true, "left": true, "put": true, "lost": true, "found": true, "shown": true,
	"known": true, "seen": true, "begun": true, "run": true, "chosen": true, "drawn": true, "built": true, "bound": true, "hidden": true, "thrown": true}

// determiners and other words that may stand before a head noun without making a
// kind of it: "each request", "a further connection".
var determiners = map[string]bool{"a": true, "an": true, "the": true, "each": true, "no": true, "one": true, "two": true, "three": true,
	"another": true, "first": true, "last": true, "next": true, "further": true, "other": true, "whole": true, "same": true, "exactly": true,
	"of": true, "to": true, "for": true, "in": true, "on": true, "with": true, "without": true, "and": true, "or": true, "by": true, "than": true,
	"that": true, "more": true, "own": true, "oldest": true, "newest": true, "preceding": true, "given": true, "empty": true, "from": true, "before": true, "after": true, "new": true,
	"unknown": true, "single": true, "kept-alive": true, "well-formed": true, "overlapping": true, "which": true, "as": true, "at": true, "when": true, "while": true}

// units may follow a number. Plural and singular.
var units = map[string]bool{"byte": true, "bytes": true, "kib": true, "mib": true, "gib": true, "second": true, "seconds": true, "ms": true,
	"millisecond": true, "milliseconds": true, "minutes": true, "hours": true, "percent": true, "connections": true, "connection": true, "entries": true,
	"entry": true, "actions": true, "states": true, "workers": true, "words": true, "times": true, "further": true, "plus": true, "readers": true}

// measures may stand before a number and say what it counts: "answer 404",
// "exit code 124".
var measures = map[string]bool{"answer": true, "answers": true, "status": true, "statuses": true, "code": true, "codes": true, "signal": true,
	"version": true, "section": true, "to": true, "exits": true, "exit": true}
