package confine

import "math"

// maxDescriptors has no limit that matters.
func maxDescriptors() int { return math.MaxInt }

// dirHandle is not needed: all that Windows can do, os.Root does.
type dirHandle struct{}

func (*dirHandle) close() {}
