package httpfront

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"microvms/agentd/internal/strictjson"
)

// failure is an error with a status of its own. Others are answered 500.
type failure struct {
	status int
	error
}

func (f *failure) Unwrap() error { return f.error }

// bad is the error of a request that is not what its route takes.
func bad(format string, args ...any) error {
	return &failure{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// errNotFound is the error of a path that names nothing.
var errNotFound = &failure{http.StatusNotFound, errors.New("Not Found")} //nolint:staticcheck // ST1005: the text is fixed by the manager facts, section 7

func statusOf(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.status
	}
	return http.StatusInternalServerError // ADMIN-6
}

// refuse answers with an error. ADMIN-2: always a JSON object with one text.
func refuse(w http.ResponseWriter, status int, text string) {
	_ = answer(w, status, struct { // no text makes it fail
		Error string `json:"error"`
	}{text})
}

// answer answers with v as JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	body, err := strictjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // an error means that nobody reads
	return nil
}

// readBody reads the body, which must have at most max bytes and end within the
// deadline that ServeHTTP set.
func readBody(w http.ResponseWriter, r *http.Request, max int64) ([]byte, error) {
	if r.ContentLength > max {
		// ADMIN-8: by the declared length, before a byte is read.
		return nil, tooLong(max)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, max))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, tooLong(max)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &failure{http.StatusRequestTimeout, errors.New("the body did not arrive in time")} // ADMIN-9
	case err != nil:
		return nil, bad("the body cannot be read: send as many bytes as the header says")
	}
	w.Header().Del("Connection")
	// The rest of the request may take its time: a wait for a run, for one.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

func tooLong(max int64) error {
	return &failure{http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", max)}
}

// readJSON reads a JSON body into v.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r, MaxJSONBytes)
	if err != nil {
		return err
	}
	if err := strictjson.Unmarshal(body, v); err != nil {
		return bad("the body is not the JSON that this route takes: %s", strictjson.Describe(err)) // ADMIN-4
	}
	return nil
}

// query parses the query. ADMIN-4: one value a name, and no broken escapes, so
// that no reading is a guess.
func query(r *http.Request, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, bad("the query is malformed: %v", err)
	}
	out := map[string]string{}
	for _, name := range known {
		switch v := values[name]; {
		case len(v) > 1:
			return nil, bad("the query names %q more than once", name)
		case len(v) == 1:
			out[name] = v[0]
		}
	}
	return out, nil
}

// number reads a number of at most bits bits: digits and nothing else.
func number(name, text string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil || !digits(text) {
		return 0, bad("the query's %q is not a number below 2^%d", name, bits)
	}
	return n, nil
}

func digits(text string) bool {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return text != ""
}
