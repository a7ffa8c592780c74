package client

import (
	"context"
	"errors"
	"net/http"

	"microvms/agentd/api"
)

// Discovery asks whom a start without a user runs as. Its DefaultUser is nil
// where that is the daemon's own user, and also where the daemon is older than
// the question and answers 404; it is empty where the image sets a user that
// names nobody, so that such a start is refused. Every other failure is an error.
func (s *Session) Discovery(ctx context.Context) (*api.Discovery, error) {
	var out api.Discovery
	err := s.do(ctx, call{method: http.MethodGet, path: api.PathDiscovery, out: &out})
	if errors.Is(err, ErrNotFound) {
		// ACCOUNT-12: a daemon without the route has no default user either.
		return &api.Discovery{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}
