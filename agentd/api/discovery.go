package api

// Discovery is the answer of GET /v1/discovery. Readers ignore other keys; an
// older daemon answers 404 (wire facts, section 12).
type Discovery struct {
	// DefaultUser is whom a start without a user runs as: the image's default
	// user as the image spells it, or the "uid:gid" that the image sealed. nil:
	// the daemon's own user. Empty: the image sets a user that names nobody, so
	// such a start is refused.
	DefaultUser *string `json:"default_user"`
}
