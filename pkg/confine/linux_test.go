package confine

import (
	"errors"
	"testing"
)

func TestMountPointsAreReplacedInPlace(t *testing.T) {
	if _, err := OpenStage("/proc", Beside); !errors.Is(err, ErrInPlace) {
		t.Errorf("OpenStage beside a mount point: %v, want ErrInPlace", err)
	}
}
