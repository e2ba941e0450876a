package providertest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Options say how a [Fake] behaves. The zero value is a well-behaved sandbox
// that can only Exec. All of them can be combined. The tag is the option's key
// in the configuration of [Driver].
//
// Where a number counts calls, -1 means all of them.
type Options struct {
	// Root is the directory that targets lie in, such as a small tmpfs; empty
	// makes one. Nothing confines commands to it.
	Root string `key:"box"`

	// What the sandbox offers, and says so in its capabilities.

	Stream bool `key:"stream"` // offers Streamer
	Files  bool `key:"files"`  // offers Filer, with the file semantics of e2b's envd: e2b.md

	// NoStdin: commands get no input, and giving one is an error
	// (Daytona's /process/execute).
	NoStdin bool `key:"no_stdin"`
	// NoHalfClose: commands never see the end of their input
	// (kubernetes/kubernetes#89899).
	NoHalfClose bool `key:"no_half_close"`
	// MaxStdin refuses more input than this in one Exec.
	MaxStdin int64 `key:"max_stdin"`
	// MaxStdout cuts an Exec's standard output here, with success, as the
	// capability of this name says.
	MaxStdout int64 `key:"max_stdout"`
	// MaxArg refuses longer arguments.
	MaxArg int `key:"max_arg"`
	// MaxConcurrent is only said; Peak tells whether it was kept to.
	MaxConcurrent int `key:"max_concurrent"`
	// MergedOutput: standard error arrives in standard output (Daytona).
	MergedOutput bool `key:"merged_output"`
	// TextOutput: output bytes that are not UTF-8 become U+FFFD (Daytona, and
	// every transport that carries output in a JSON string).
	TextOutput bool `key:"text_output"`
	// LoseTail drops the last bytes of standard output, this many, unless the
	// command was quiet before it exited: a command that waits for an
	// acknowledgement on stdin loses nothing (containerd; kubernetes.md).
	LoseTail int64 `key:"lose_tail"`

	// What the sandbox does without saying so.

	// DropStdin: this many commands with input find it empty.
	DropStdin int `key:"drop_stdin"`
	// CutStdout cuts an Exec's standard output here, with success
	// (agentscope-ai/agentscope-java#2923: 512 KiB).
	CutStdout int64 `key:"cut_stdout"`
	// CutStreamOut and CutStreamIn end a Stream early, with exit code 0
	// (kubernetes/kubernetes#124571, containerd#13934).
	CutStreamOut Cut `key:"cut_stream_out"`
	CutStreamIn  Cut `key:"cut_stream_in"`
	// DelayExit is how much later than its output the end of a command is
	// told (containers/conmon#119: 2 to 35 s).
	DelayExit time.Duration `key:"delay_exit"`
	// LoseExit: the end of this many commands is never told.
	LoseExit int `key:"lose_exit"`
	// HideEarlyExit: LoseTail is not said.
	HideEarlyExit bool `key:"hide_early_exit"`
	// StopStdin ends a command's input as soon as it closes its standard
	// output, as in `exec cat >file` (containerd#13934, #12734).
	StopStdin bool `key:"stop_stdin"`
	// LosePut: files longer than this are not stored by PutFiles, which
	// answers success (opensandbox-group/OpenSandbox#1016: 18 KB).
	LosePut int64 `key:"lose_put"`

	// How the way to the sandbox fails.

	// RoundTrip is added to every call.
	RoundTrip time.Duration `key:"round_trip"`
	// RateLimitFirst and UnreachableFirst answer this many calls with HTTP
	// 429 or 502 (daytonaio/daytona#4142), before anything is run.
	RateLimitFirst   int `key:"rate_limit_first"`
	UnreachableFirst int `key:"unreachable_first"`
	// RatePerSecond answers what comes faster with 429
	// (ProfessionalWiki/SimpleBatchUpload#83).
	RatePerSecond int `key:"rate_per_second"`
	// RetryAfter is what a 429 asks for; with RatePerSecond, 0 means the time
	// until the next call would be let through.
	RetryAfter time.Duration `key:"retry_after"`
	// DieAt is the number of the call, from 1, at which the sandbox goes away
	// for good. DieLate runs that call's command and loses the answer.
	DieAt   int  `key:"die_at"`
	DieLate bool `key:"die_late"`

	// What the machine is like.

	// Without takes programs away. Only leaves just these. Both apply to a
	// fixed list of usual tools (usualTools), which is all there is then.
	Without []string `key:"without"`
	Only    []string `key:"only"`
	// BusyBox: the tools are BusyBox's, the shell too. Together with Without,
	// Only, Base64Wrap or SpaceLeft the shell is this machine's, since
	// BusyBox's finds its own tools without looking at PATH.
	BusyBox bool `key:"busybox"`
	// Base64Wrap is how base64 writes its lines: WrapLF, WrapCRLF or WrapBare.
	// It then has no option -w (agentscope-ai/agentscope-java#1860).
	Base64Wrap string `key:"base64_wrap"`
	// SpaceLeft is how many bytes can be stored before "No space left on
	// device", by cat, dd, head, base64, gzip and tar. It is played by shell
	// scripts in front of these; for the real thing, set Root to a tmpfs.
	SpaceLeft int64 `key:"space_left"`
	// ReadOnly: Root may not be written. Root's user may write anywhere, so
	// for it this includes OtherUser.
	ReadOnly bool `key:"read_only"`
	// Umask of commands; 0 leaves it.
	Umask int `key:"umask"`
	// OtherUser runs commands as user and group 65534, who own Root. It does
	// nothing unless the tests run as root.
	OtherUser bool `key:"other_user"`
}

// Values of Options.Base64Wrap: lines of 76 characters, ended by LF or CRLF, or
// by LF but for the last one.
const (
	WrapLF   = "lf"
	WrapCRLF = "crlf"
	WrapBare = "bare"
)

// Cut is a point at which a stream ends before its end. The zero value is
// none.
type Cut struct {
	// Bytes cuts after this many bytes.
	Bytes int64
	// Members cuts a tar stream right after this many members.
	Members int
	// Inside cuts a tar stream in the middle of the content of the first file
	// after this many members plus one: 1 cuts inside the first.
	Inside int
	// Times is how many streams are cut; 0 means all.
	Times int
	// Break loses the connection (an error of kind Unreachable) instead of
	// pretending success.
	Break bool
}

func (c Cut) none() bool { return c.Bytes <= 0 && c.Members <= 0 && c.Inside <= 0 }

// UnmarshalText reads "bytes=N", "members=N" or "inside=N", with ",times=N" and
// ",break" if wanted.
func (c *Cut) UnmarshalText(text []byte) error {
	*c = Cut{}
	for word := range strings.SplitSeq(string(text), ",") {
		name, number, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(number)
		if err != nil && name != "break" {
			return fmt.Errorf("cut %q: %q is not NAME=NUMBER", text, word)
		}
		switch name {
		case "bytes":
			c.Bytes = int64(n)
		case "members":
			c.Members = n
		case "inside":
			c.Inside = n
		case "times":
			c.Times = n
		case "break":
			c.Break = true
		default:
			return fmt.Errorf("cut %q: unknown word %q", text, name)
		}
	}
	return nil
}
