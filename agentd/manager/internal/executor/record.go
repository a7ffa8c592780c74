package executor

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// level is the level of a log record, by the word that the record carries.
type level string

// The levels. What is none of them is info (manager facts, section 4.6).
const (
	levelTrace level = "trace"
	levelDebug level = "debug"
	levelInfo  level = "info"
	levelWarn  level = "warn"
	levelError level = "error"
)

// slog is the level in the manager's own log.
func (l level) slog() slog.Level {
	switch l {
	case levelTrace, levelDebug:
		return slog.LevelDebug
	case levelWarn:
		return slog.LevelWarn
	case levelError:
		return slog.LevelError
	}
	return slog.LevelInfo
}

func levelOf(word string) level {
	switch l := level(strings.ToLower(word)); l {
	case levelTrace, levelDebug, levelInfo, levelWarn, levelError:
		return l
	case "warning":
		return levelWarn
	}
	return levelInfo
}

// record turns one line of an executor's log, trimmed and not blank, into a
// record: a compact JSON object and a line end. whole is false for the
// beginning of a line that was too long to keep.
func record(line []byte, whole bool) ([]byte, level) {
	if whole {
		if rec, l, err := object(line); err == nil {
			return rec, l
		}
	}
	// EXECUTOR-26: what is no object is kept as text, so that no line of an executor is lost.
	rec := []byte(`{"level":"info","message":"genvm log","line":`)
	rec, err := jsontext.AppendQuote(rec, strings.ToValidUTF8(string(line), "\uFFFD"))
	if err != nil {
		panic("executor: internal error: cannot quote valid text: " + err.Error())
	}
	return append(rec, "}\n"...), levelInfo
}

// member is one member of an object, both parts as received but compact.
type member struct{ name, value []byte }

var errNoObject = errors.New("no JSON object")

// object reads a JSON object and puts its level last. Members keep their order;
// of members with the same name the last value counts, in the first one's place.
func object(line []byte) ([]byte, level, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	if dec.PeekKind() != '{' {
		return nil, "", errNoObject
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, "", err
	}
	var members []member
	at := map[string]int{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, "", err
		}
		name = bytes.Clone(name)
		value, err := dec.ReadValue()
		if err != nil {
			return nil, "", err
		}
		value = bytes.Clone(value)
		if err := value.Compact(); err != nil {
			return nil, "", err
		}
		text, err := jsontext.AppendUnquote(nil, name)
		if err != nil {
			return nil, "", err
		}
		if i, again := at[string(text)]; again {
			members[i].value = value
			continue
		}
		at[string(text)] = len(members)
		members = append(members, member{name, value})
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, "", err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, "", errNoObject // EXECUTOR-26: two values on one line are no object
	}
	l := levelInfo
	levelAt, named := at["level"]
	if named {
		if word, err := jsontext.AppendUnquote(nil, members[levelAt].value); err == nil {
			l = levelOf(string(word))
		}
	}
	rec := []byte{'{'}
	for i, m := range members {
		if named && i == levelAt {
			continue
		}
		rec = append(append(append(append(rec, m.name...), ':'), m.value...), ',')
	}
	// EXECUTOR-25: the level last, in the manager's own words.
	rec = append(append(append(rec, `"level":"`...), l...), "\"}\n"...)
	return rec, l, nil
}
