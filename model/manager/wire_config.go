package manager

import (
	"fmt"

	"microvms/model"
)

// WireDeviation is one deliberate fault of a connection.
type WireDeviation uint8

// The deviations.
const (
	WireSpecified WireDeviation = iota

	CloseOnError
	IDNotEchoed
	ErrorsUnanswered
	TooLongAnswered
	TooLongClosed
	TextIsRead
	ShortIDRead
	IDBeforeMethod
	PayloadBeforeID
	ZeroServed
	ServerMethodIgnored
	EmptyIsNull
	AnsweredTwice
	OutOfOrder
	NoHello
	LateHello
	PageErrorsQueued
	OneQueue
	PagesFirst
	QueuedAfterLeave
	NewestFirst
	PagesForgotten

	wireDeviations
)

var wireTexts = [wireDeviations]struct{ name, text string }{
	CloseOnError:        {"close-on-error", "an error closes the connection"},
	IDNotEchoed:         {"id-not-echoed", "errors do not carry the request's id"},
	ErrorsUnanswered:    {"errors-unanswered", "a message that is refused gets no answer"},
	TooLongAnswered:     {"too-long-answered", "a message that is too long is answered, and the connection stays"},
	TooLongClosed:       {"too-long-closed", "a message that is too long is answered by a close frame"},
	TextIsRead:          {"text-is-read", "a text message is read like a binary one"},
	ShortIDRead:         {"short-id-read", "the bytes of an id that a short message has are read"},
	IDBeforeMethod:      {"id-before-method", "the id is judged before the method"},
	PayloadBeforeID:     {"payload-before-id", "the payload is judged before the id"},
	ZeroServed:          {"zero-served", "a request with id 0 is served"},
	ServerMethodIgnored: {"server-method-ignored", "a method that only the manager sends is ignored"},
	EmptyIsNull:         {"empty-is-null", "an empty payload is taken for a value"},
	AnsweredTwice:       {"answered-twice", "a request is answered twice"},
	OutOfOrder:          {"out-of-order", "the newer of two messages is handled first"},
	NoHello:             {"no-hello", "a connection is not greeted"},
	LateHello:           {"late-hello", "an event precedes the hello"},
	PageErrorsQueued:    {"page-errors-queued", "errors of get_artifact wait behind pages"},
	OneQueue:            {"one-queue", "pages wait with everything else"},
	PagesFirst:          {"pages-first", "pages leave before control messages"},
	QueuedAfterLeave:    {"queued-after-leave", "what is queued outlives the client's close frame"},
	NewestFirst:         {"newest-first", "the newest of two control messages is written first"},
	PagesForgotten:      {"pages-forgotten", "the writer is not told of pages"},
}

// String describes the deviation in a phrase.
func (d WireDeviation) String() string { return wireTexts[d].text }

// WireReplay is the configuration that is driven on the real manager.
func WireReplay() WireConfig {
	return WireConfig{Name: "wire-replay", Budget: 2, Settled: true}
}

// WireConfigs returns every configuration of the wire model.
func WireConfigs() []WireConfig {
	out := []WireConfig{{Name: "wire", Budget: 2, Events: 1}, WireReplay()}
	for d := WireSpecified + 1; d < wireDeviations; d++ {
		out = append(out, WireConfig{Name: "wire-" + wireTexts[d].name, Deviation: d, Budget: 2, Events: 1})
	}
	return out
}

func (c *WireConfig) sentence() string {
	switch {
	case c.Deviation != WireSpecified:
		return c.Deviation.String()
	case c.Settled:
		return "two messages of each kind on one connection, each judged when it is sent"
	}
	return "two messages of each kind on one connection, an event, and a writer that is behind"
}

// NewWire returns the wire model of a configuration.
func NewWire(c WireConfig) model.Model[WireState] {
	var names []string
	for _, m := range Messages {
		names = append(names, m.Name)
	}
	values := map[string][]string{"message": names, "queue": {"control", "page"}}
	m := model.Model[WireState]{
		Name: "manager-wire", Config: c.Name,
		Actions: []model.ActionInfo{
			ActSend:   {Name: "Send", Params: []string{"message"}, Values: values},
			ActHandle: {Name: "Handle"},
			ActNotify: {Name: "Notify"},
			ActWrite:  {Name: "Write", Params: []string{"queue"}, Values: values},
			ActLeave:  {Name: "Leave"},
		},
		Init:       func(out []WireState) []WireState { return append(out, c.Initial()) },
		Next:       c.next,
		Terminal:   func(s WireState) bool { return s.Phase != WireOpen },
		Properties: c.properties(),
		Fairness:   []model.Fairness{model.Weak("the manager handles", ActHandle), model.Weak("the client reads", ActWrite)},
		Fields:     wireFields,
	}
	if c.Settled {
		m.MayBeDead = []string{"Handle", "Notify"}
	}
	return m
}

func wireFields(s WireState) []model.Field {
	f := func(name string, v any) model.Field { return model.Field{Name: name, Value: fmt.Sprint(v)} }
	var in []string
	for _, i := range s.In[:s.InLen] {
		in = append(in, Messages[i].Name)
	}
	return []model.Field{
		f("phase", s.Phase), f("budget", s.Budget), f("events", s.Events), f("inbox", in),
		f("control", s.Queue[ControlQueue].Messages()), f("pages", s.Queue[PageQueue].Messages()),
		f("serial", s.Serial), f("last", s.Last), f("heard", s.Heard), f("early", s.Early),
		f("owed", s.Owed), f("answers", s.Answers), f("overtook", s.Overtook),
	}
}

// String renders a message of the manager.
func (m Sent) String() string { return fmt.Sprintf("%s(%d)", m.Words, m.ID) }
