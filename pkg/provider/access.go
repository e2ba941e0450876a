package provider

// What the zero limits of [Capabilities] stand for.
const (
	// DefaultMaxArg is Linux's MAX_ARG_STRLEN less the final NUL (measured:
	// 131,071 passes, 131,072 fails).
	DefaultMaxArg = 131071
	// DefaultMaxArgs is half of Linux's usual ARG_MAX; the environment needs
	// room too.
	DefaultMaxArgs = 1 << 20
	// DefaultMaxConcurrent is the seed system's limit of operations at once.
	DefaultMaxConcurrent = 4
)

// WithDefaults returns c with every limit that is 0 for "the default" filled
// in. MaxStdin and MaxStdout have none and stay.
func (c Capabilities) WithDefaults() Capabilities {
	if c.MaxArg <= 0 {
		c.MaxArg = DefaultMaxArg
	}
	if c.MaxArgs <= 0 {
		c.MaxArgs = DefaultMaxArgs
	}
	if c.MaxConcurrent <= 0 {
		c.MaxConcurrent = DefaultMaxConcurrent
	}
	return c
}

// StreamerOf returns the sandbox's [Streamer] verb. It is there only if the
// sandbox offers the method and its capabilities say so.
func StreamerOf(sb Sandbox) (Streamer, bool) {
	s, ok := sb.(Streamer)
	return s, ok && sb.Capabilities().Stream
}

// FilerOf returns the sandbox's [Filer] verbs, as [StreamerOf] does.
func FilerOf(sb Sandbox) (Filer, bool) {
	f, ok := sb.(Filer)
	return f, ok && sb.Capabilities().Files
}

// SyncerOf returns the sandbox's [Syncer] verbs, as [StreamerOf] does.
func SyncerOf(sb Sandbox) (Syncer, bool) {
	s, ok := sb.(Syncer)
	return s, ok && sb.Capabilities().Sync
}
