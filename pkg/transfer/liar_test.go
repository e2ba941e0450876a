package transfer_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/sbsync/sbsync/internal/hostile"
	"github.com/sbsync/sbsync/pkg/provider"
)

// liar is a sandbox that runs nothing. It answers the scripts of a pull as it
// likes: with a forged listing, forged archives and forged contents.
type liar struct {
	streams bool
	// listing is what it says that there is.
	listing []byte
	// archive writes the answer to a request for an archive.
	archive func(w io.Writer) error
	// contents are what it gives for files by the text route.
	contents map[string]string
	// reply, if set, may change the text of a reply to any other script.
	reply func(label, text string) string
	// code is the exit code that it claims, and complaint the standard error,
	// of the script that sends an archive.
	code      int
	complaint string

	mu    sync.Mutex
	calls []string // labels
}

func (l *liar) Capabilities() provider.Capabilities {
	return provider.Capabilities{Stdin: true, HalfClose: true, Stream: l.streams}
}

func (l *liar) Close() error { return nil }

func (l *liar) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	return l.answer(cmd)
}

func (l *liar) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	return l.answer(cmd)
}

var (
	frameWord = regexp.MustCompile(`sbsync-begin ([a-z2-7]{16})`)
	fileList  = regexp.MustCompile(`(?m)^set -- (.*)$`)
	pieceOf   = regexp.MustCompile(`dd if='\./([^']*)' bs=(\d+) skip=(\d+) count=\d+ 2>/dev/null(?: \| head -c (\d+))?`)
	headOf    = regexp.MustCompile(`head -c \d+ '\./([^']*)'`)
	listItem  = regexp.MustCompile(`'\./([^']*)'`)
)

// answer writes a reply in the frame that the script would have made.
func (l *liar) answer(cmd provider.Command) (provider.Result, error) {
	l.mu.Lock()
	l.calls = append(l.calls, cmd.Label)
	l.mu.Unlock()
	text := strings.Join(cmd.Args, "\n")
	word := frameWord.FindStringSubmatch(text)
	if word == nil {
		return provider.Result{ExitCode: 127}, nil
	}
	fmt.Fprintf(cmd.Stdout, "\nsbsync-begin %s\n", word[1])
	code, complaint := 0, ""
	if cmd.Label == "pull" {
		// An error here is the reader's, who has had enough.
		if err := l.archive(cmd.Stdout); err != nil {
			return provider.Result{}, err
		}
		code, complaint = l.code, l.complaint
	} else {
		reply := l.text(cmd.Label, text)
		if l.reply != nil {
			reply = l.reply(cmd.Label, reply)
		}
		if _, err := io.WriteString(cmd.Stdout, reply); err != nil {
			return provider.Result{}, err
		}
	}
	_, err := fmt.Fprintf(cmd.Stdout, "\nsbsync-err %s\n%s\nsbsync-end %s %d\n", word[1], complaint, word[1], code)
	return provider.Result{}, err
}

// text is the reply to everything but a request for an archive.
func (l *liar) text(label, script string) string {
	switch {
	case label == "inspect":
		facts := "tar gnu\x00tools base64 sha256sum xargs find head tail dd\x00uid 0\x00path /box\x00kind d\x00missing 0\x00dir /box\x00blocked \x00listing\x00"
		text := facts + string(l.listing)
		if l.streams {
			return text
		}
		text = base64.StdEncoding.EncodeToString([]byte(text)) + "\n"
		return fmt.Sprintf("plain %d 1\n%s", len(text), text)
	case label == "fetch a changing file":
		content := ""
		if m := headOf.FindStringSubmatch(script); m != nil {
			content = l.contents[m[1]]
		}
		text := base64.StdEncoding.EncodeToString([]byte(content))
		return fmt.Sprintf("plain\n%s\n-\n%x\n", text, sha256.Sum256([]byte(text)))
	case strings.HasPrefix(label, "fetch"):
		var content, sums strings.Builder
		list := fileList.FindStringSubmatch(script)
		if list == nil {
			return ""
		}
		for _, name := range listItem.FindAllStringSubmatch(list[1], -1) {
			content.WriteString(l.contents[name[1]])
			fmt.Fprintf(&sums, "%x\n", sha256.Sum256([]byte(l.contents[name[1]])))
		}
		return l.packed(content.String()) + sums.String()
	case strings.HasPrefix(label, "piece"):
		content := ""
		if m := pieceOf.FindStringSubmatch(script); m != nil {
			content = l.contents[m[1]]
		}
		return l.packed(content) + fmt.Sprintf("%x\n", sha256.Sum256([]byte(content)))
	}
	return ""
}

func (l *liar) packed(content string) string {
	if l.streams {
		return "raw\n" + content + "\n-\n"
	}
	return "plain\n" + base64.StdEncoding.EncodeToString([]byte(content)) + "\n\n-\n"
}

// contentsOf are what the members of a listing hold.
func contentsOf(list []hostile.Member) map[string]string {
	all := map[string]string{}
	for _, m := range list {
		all[strings.TrimPrefix(m.Name, "./")] = m.Content
	}
	return all
}
