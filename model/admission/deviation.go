package admission

// Deviation is one deliberate fault: a plausible mistake of a daemon, planted
// in the rule so that the properties can be seen to notice it.
type Deviation uint8

const (
	// Specified plants nothing.
	Specified Deviation = iota

	// Slots.
	CapIgnored
	LeakOnUpgrade
	UpgradeUncounted

	// Who makes room.
	NewestClosed
	IdleFirst
	UploadFirst
	ServingClosed
	CompleteClosed
	UnreadClosed
	GraceIgnored
	NewcomerWaits
	BodiesStay
	AnswersStay
	QuestionStays
	MovingStalls
	EndUnannounced
	UpgradeEnds

	// What a body may cost.
	SilenceAnswered
	HookUncapped
	LateHookKept
	DrainUnbounded
	IncompleteKept
	BodyBeforeJudgement
	BodyHeld
	LargeRead

	// Deadlines.
	IdleUntimed
	HookUntimed
	UploadUntimed
	DrainUntimed
	AnswerUntimed

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
	Specified:           {"specified", ""},
	CapIgnored:          {"cap-ignored", "connections are admitted above the cap"},
	LeakOnUpgrade:       {"leak-on-upgrade", "the slot of an upgraded connection does not come back"},
	UpgradeUncounted:    {"upgrade-uncounted", "an upgraded connection gives its slot back at once"},
	NewestClosed:        {"newest-closed", "the connection that has waited shortest is closed for a newcomer"},
	IdleFirst:           {"idle-first", "a connection between requests is closed before one that never asked"},
	UploadFirst:         {"upload-first", "an owner's upload is closed before a connection between requests"},
	ServingClosed:       {"serving-closed", "a request under way is cut for a newcomer"},
	CompleteClosed:      {"complete-closed", "a request whose body is complete is cut for a newcomer"},
	UnreadClosed:        {"unread-closed", "a connection is closed whose request lies in the socket"},
	GraceIgnored:        {"grace-ignored", "a connection is closed for a newcomer however young its wait is"},
	NewcomerWaits:       {"newcomer-waits", "a newcomer waits behind connections that ask nothing"},
	BodiesStay:          {"bodies-stay", "a body that does not come keeps its slot until its deadline"},
	AnswersStay:         {"answers-stay", "an answer that nobody reads keeps its slot until its deadline"},
	QuestionStays:       {"question-stays", "no other connection is asked after one went on"},
	MovingStalls:        {"moving-stalls", "an upload that moves counts as one that stalls"},
	EndUnannounced:      {"end-unannounced", "an answer does not announce the end while a newcomer waits"},
	UpgradeEnds:         {"upgrade-ends", "an upgrade is answered as the last request of its connection while a newcomer waits"},
	SilenceAnswered:     {"silence-answered", "a connection without a header is answered at its deadline"},
	HookUncapped:        {"hook-uncapped", "the body of a hook is read without a cap"},
	LateHookKept:        {"late-hook-kept", "the connection of a late hook body is kept"},
	DrainUnbounded:      {"drain-unbounded", "a refused body is read to its end, however long"},
	IncompleteKept:      {"incomplete-kept", "a connection is kept although its refused body did not end"},
	BodyBeforeJudgement: {"body-before-judgement", "the body is read before the caller is judged"},
	BodyHeld:            {"body-held", "the body of a refused caller is held in memory"},
	LargeRead:           {"large-read", "a body declared above the cap is read before the refusal"},
	IdleUntimed:         {"idle-untimed", "no deadline holds between requests"},
	HookUntimed:         {"hook-untimed", "no deadline holds over the body of a hook"},
	UploadUntimed:       {"upload-untimed", "no deadline holds over the body of an upload"},
	DrainUntimed:        {"drain-untimed", "no deadline holds over the drain of a refused body"},
	AnswerUntimed:       {"answer-untimed", "no deadline holds over an answer that nobody reads"},
}
