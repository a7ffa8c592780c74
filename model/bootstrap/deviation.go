package bootstrap

// Deviation is one deliberate fault: a plausible mistake of a daemon, planted
// in the rule so that the properties can be seen to notice it.
type Deviation uint8

const (
	// Specified plants nothing.
	Specified Deviation = iota

	// The decision of a run hook.
	TokenThenEnv         // the token is installed in one step, its environment in a later one
	CheckThenAct         // the decision rests on the token as it was when the request came in
	SecondTokenAccepted  // another token replaces the installed one
	ReplayReinstallsEnv  // a repeated bootstrap installs its environment
	ReplayRefused        // a repeated bootstrap is answered 409
	ConflictReplacesEnv  // a refused bootstrap leaves its environment behind
	ConflictAnsweredOK   // a refused bootstrap is answered 200
	FirstTokenRefused    // no bootstrap is ever accepted
	MalformedInstallsEnv // a malformed payload leaves an environment behind
	MalformedNotFound    // a malformed payload is answered 404
	OversizedAs400       // a body above the cap is answered 400
	CutRollsBack         // an install is undone when its client vanishes before the answer

	// Authorization.
	ControlOpenBeforeBootstrap // with no token installed every bearer is accepted
	WrongTokenAccepted         // any token is accepted once one is installed
	AbsentBearerAccepted       // no bearer at all is accepted once a token is installed
	CompareInverted            // the comparison is inverted
	UnauthorizedAs503          // a wrong bearer is answered 503
	UnauthorizedAs404          // a wrong bearer is answered 404
	UnavailableAs401           // a request before bootstrap is answered 401
	RefusedStartRuns           // a refused start has its effect before it is refused
	UnknownExecAs401           // a read of an unknown exec is answered 401
	StartRetriedAfresh         // a repeated start runs a second child, with a cleared environment

	// The hook log.
	LogKeepsNewest     // the full log drops its oldest entry
	LogForgetsHook     // every request is recorded as a run hook
	LogUncapped        // the log grows without a cap
	DroppedNotCounted  // the full log forgets that it dropped something
	LogAfterParse      // a request enters the log once its body was parsed: malformed ones never do
	LogAfterDecision   // a request enters the log once it was accepted: refused ones never do
	DroppedHookIgnored // a request that was not kept is answered 200 without any effect
	ResumeNeedsToken   // a resume before bootstrap is answered 503

	TerminateEndsService // a terminate takes the token away, as a shutdown would

	// Handlers and children.
	HandlerOnReplay      // a repeated bootstrap runs the handler
	HandlerOnConflict    // a refused bootstrap runs the handler
	HandlerForDropped    // a request that was not kept runs the handler
	HandlerTwice         // the handler is run twice
	HandlersConcurrent   // two handlers run at once
	AnswerBeforeHandler  // the answer does not wait for the handler
	TerminateCutsHandler // a terminate ends the handler that runs
	SuspendSkipsHandler  // a suspend that arrives while a handler runs is answered without its own
	TokenInHandlerEnv    // the handler's environment holds the token
	HandlerUnbounded     // a handler that hangs is waited for without end
	DeadlineHidden       // the entry does not say that the handler was killed
	TokenInChildEnv      // a child's environment holds the token

	// Progress.
	VanishedHoldsLock     // a request whose client vanished before its decision keeps the lock
	ConflictNeverAnswered // a conflicting bootstrap gets no answer
	WaitsForBootstrap     // a control request before bootstrap waits for one instead of being answered 503

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

// Controls reports whether the deviation is in the handling of control requests;
// the others are in that of hook requests.
func (d Deviation) Controls() bool {
	return d >= ControlOpenBeforeBootstrap && d <= StartRetriedAfresh || d == TokenInChildEnv || d == WaitsForBootstrap
}

// Handlers reports whether the deviation is in the running of handlers, so that it shows only where an image brings some.
func (d Deviation) Handlers() bool { return d >= HandlerOnReplay && d <= DeadlineHidden }

// Name returns the deviation's name in reports: a word of small letters.
func (d Deviation) Name() string { return deviationTexts[d].name }

// String describes the deviation in a phrase; it is empty for Specified.
func (d Deviation) String() string { return deviationTexts[d].text }

var deviationTexts = [deviations]struct{ name, text string }{
	Specified:                  {"specified", ""},
	TokenThenEnv:               {"token-then-env", "the token is installed in one step, its environment in a later one"},
	CheckThenAct:               {"check-then-act", "the decision rests on the token as it was when the request came in"},
	SecondTokenAccepted:        {"second-token-accepted", "another token replaces the installed one"},
	ReplayReinstallsEnv:        {"replay-reinstalls-env", "a repeated bootstrap installs its environment"},
	ReplayRefused:              {"replay-refused", "a repeated bootstrap is answered 409"},
	ConflictReplacesEnv:        {"conflict-replaces-env", "a refused bootstrap leaves its environment behind"},
	ConflictAnsweredOK:         {"conflict-answered-ok", "a refused bootstrap is answered 200"},
	FirstTokenRefused:          {"first-token-refused", "no bootstrap is ever accepted"},
	MalformedInstallsEnv:       {"malformed-installs-env", "a malformed payload leaves an environment behind"},
	MalformedNotFound:          {"malformed-not-found", "a malformed payload is answered 404"},
	OversizedAs400:             {"oversized-as-400", "a body above the cap is answered 400"},
	CutRollsBack:               {"cut-rolls-back", "an install is undone when its client vanishes before the answer"},
	ControlOpenBeforeBootstrap: {"control-open-before-bootstrap", "with no token installed every bearer is accepted"},
	WrongTokenAccepted:         {"wrong-token-accepted", "any token is accepted once one is installed"},
	AbsentBearerAccepted:       {"absent-bearer-accepted", "no bearer at all is accepted once a token is installed"},
	CompareInverted:            {"compare-inverted", "the comparison of tokens is inverted"},
	UnauthorizedAs503:          {"unauthorized-as-503", "a wrong bearer is answered 503"},
	UnauthorizedAs404:          {"unauthorized-as-404", "a wrong bearer is answered 404"},
	UnavailableAs401:           {"unavailable-as-401", "a control request before bootstrap is answered 401"},
	RefusedStartRuns:           {"refused-start-runs", "a refused start has its effect before it is refused"},
	UnknownExecAs401:           {"unknown-exec-as-401", "a read of an unknown exec is answered 401"},
	StartRetriedAfresh:         {"start-retried-afresh", "a repeated start runs a second child, with a cleared environment"},
	LogKeepsNewest:             {"log-keeps-newest", "the full hook log drops its oldest entry"},
	LogForgetsHook:             {"log-forgets-hook", "every hook request is recorded as a run"},
	LogUncapped:                {"log-uncapped", "the hook log grows without a cap"},
	DroppedNotCounted:          {"dropped-not-counted", "the full hook log forgets that it dropped something"},
	LogAfterParse:              {"log-after-parse", "a hook request enters the log once its body was parsed"},
	LogAfterDecision:           {"log-after-decision", "a hook request enters the log once it was accepted"},
	DroppedHookIgnored:         {"dropped-hook-ignored", "a hook request that was not kept is answered 200 without any effect"},
	ResumeNeedsToken:           {"resume-needs-token", "a resume before bootstrap is answered 503"},
	TerminateEndsService:       {"terminate-ends-service", "a terminate takes the token away"},
	HandlerOnReplay:            {"handler-on-replay", "a repeated bootstrap runs the handler"},
	HandlerOnConflict:          {"handler-on-conflict", "a refused bootstrap runs the handler"},
	HandlerForDropped:          {"handler-for-dropped", "a hook request that was not kept runs the handler"},
	HandlerTwice:               {"handler-twice", "the handler is run twice"},
	HandlersConcurrent:         {"handlers-concurrent", "two handlers run at once"},
	AnswerBeforeHandler:        {"answer-before-handler", "the answer does not wait for the handler"},
	TerminateCutsHandler:       {"terminate-cuts-handler", "a terminate ends the handler that runs"},
	SuspendSkipsHandler:        {"suspend-skips-handler", "a suspend that arrives while a handler runs is answered without its own"},
	TokenInHandlerEnv:          {"token-in-handler-env", "the handler's environment holds the token"},
	HandlerUnbounded:           {"handler-unbounded", "a handler that hangs is waited for without end"},
	DeadlineHidden:             {"deadline-hidden", "the entry does not say that the handler was killed at the end of its budget"},
	TokenInChildEnv:            {"token-in-child-env", "a child's environment holds the token"},
	VanishedHoldsLock:          {"vanished-holds-lock", "a hook request whose client vanished before its decision keeps the lock"},
	ConflictNeverAnswered:      {"conflict-never-answered", "a conflicting bootstrap gets no answer"},
	WaitsForBootstrap:          {"waits-for-bootstrap", "a control request before bootstrap waits for one"},
}
