package confine

// dirHandle is not needed: all that Windows can do, os.Root does.
type dirHandle struct{}

func (*dirHandle) close() {}
