package transfer

// Deviation is one deliberate fault: a plausible mistake of a daemon, planted
// in the rule so that the properties can be seen to notice it.
type Deviation uint8

const (
	// Specified plants nothing.
	Specified Deviation = iota

	LexicalOnly
	ResolvedTwice
	KernelOnly
	JudgedInTurn
	LinksRefused
	LastFollowed
	Truncated
	SourceFollowed
	MemberCapLow
	MemberCapHigh
	SizeCapLow
	SizeCapHigh
	ModesAtOnce
	ShallowFirst
	ModeFollowed
	ReserveUnchecked
	ReserveOnce
	OldKernelFallback

	deviations
)

// Deviations returns every deviation, in order. The slice is fresh.
func Deviations() []Deviation {
	var out []Deviation
	for d := Specified + 1; d < deviations; d++ {
		out = append(out, d)
	}
	return out
}

// Name returns the deviation's name in reports: a word of small letters.
func (d Deviation) Name() string { return deviationTexts[d].name }

// String describes the deviation in a phrase; it is empty for Specified.
func (d Deviation) String() string { return deviationTexts[d].text }

var deviationTexts = [deviations]struct{ name, text string }{
	Specified:         {"specified", ""},
	LexicalOnly:       {"lexical-only", "names are judged lexically and then resolved as the kernel does it, through links: no openat2"},
	ResolvedTwice:     {"resolved-twice", "a parent is checked and then resolved again by name for the use"},
	KernelOnly:        {"kernel-only", "names and targets are not judged lexically; the kernel alone confines"},
	JudgedInTurn:      {"judged-in-turn", "each member is judged in its turn, when members before it are placed"},
	LinksRefused:      {"links-refused", "every symbolic link is refused"},
	LastFollowed:      {"last-followed", "a file is written through a symbolic link of its name"},
	Truncated:         {"truncated", "a file of the name is opened and emptied, not removed first"},
	SourceFollowed:    {"source-followed", "the source of a hard link is looked up through a symbolic link"},
	MemberCapLow:      {"member-cap-low", "an archive of exactly the member cap is refused"},
	MemberCapHigh:     {"member-cap-high", "an archive of one member above the cap is taken"},
	SizeCapLow:        {"size-cap-low", "an archive of exactly the byte cap is refused"},
	SizeCapHigh:       {"size-cap-high", "an archive of one byte above the cap is taken"},
	ModesAtOnce:       {"modes-at-once", "a folder gets its mode when it is made"},
	ShallowFirst:      {"shallow-first", "folders get their modes from the root downwards"},
	ModeFollowed:      {"mode-followed", "a folder's mode is applied by name, through a symbolic link"},
	ReserveUnchecked:  {"reserve-unchecked", "free space is not held against the reserve"},
	ReserveOnce:       {"reserve-once", "free space is looked at once, before the upload"},
	OldKernelFallback: {"old-kernel-fallback", "without openat2 names are resolved in another way"},
}
