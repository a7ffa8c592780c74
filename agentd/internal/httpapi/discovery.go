package httpapi

import (
	"net/http"

	"microvms/agentd/api"
)

// discovery serves GET /v1/discovery: what a client must know of the image
// before it acts for the image's user. It reads no file.
func (s *Server) discovery(a *answer, _ *request) {
	// ACCOUNT-7: the configured value as it is, without a look-up, because a row
	// that is missing now may exist at the start that needs it.
	a.json(http.StatusOK, &api.Discovery{DefaultUser: s.config.DefaultUser.Published()})
}

var discoveryDoc = routeDoc{
	summary: "whom a start without a user runs as", response: api.Discovery{},
	statuses: []statusDoc{{http.StatusOK, "", "default_user is null where the image sets none"}},
}
