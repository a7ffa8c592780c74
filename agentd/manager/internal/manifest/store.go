package manifest

import "sync/atomic"

// Store is a manifest that can be read again while it is in use. All methods
// are safe for concurrent use.
type Store struct {
	path    string
	current atomic.Pointer[Manifest]
}

// Open reads the manifest at path.
func Open(path string) (*Store, error) {
	s := &Store{path: path}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads the file again. On an error the manifest stays as it was.
func (s *Store) Reload() error {
	m, err := Read(s.path)
	if err != nil {
		return err // EXECUTOR-10: a broken file must not take the executors away from a service that has them
	}
	s.current.Store(m)
	return nil
}

// Current returns the manifest that was read last.
func (s *Store) Current() *Manifest { return s.current.Load() }
