package client

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package if a goroutine outlives its tests: every session
// that the tests open must leave nothing behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
