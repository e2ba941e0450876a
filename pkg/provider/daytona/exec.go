package daytona

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/shell"
)

// maxWord is the longest word of a command line: Linux's MAX_ARG_STRLEN without
// its NUL, less a margin.
const maxWord = 120 << 10

// launcher runs the script that its first arguments hold as base64; how many
// is the very first. The other arguments are the script's. The daemon makes
// words of it up to 0.155 and has a shell read it from 0.156 on; both
// understand single quotes, and nothing else in the command needs any. A
// command that read the shell's input would eat the rest of it.
const launcher = `sh -c 'n=$1; shift; s=; while [ "$n" -gt 0 ]; do s=$s$1; shift; n=$((n-1)); done; eval "$(printf %s "$s" | base64 -d)" </dev/null' sh`

// Exec runs a command. A command that was killed, or that the daemon could not
// start, is an error: the daemon says no more.
//
// The daemon goes on with a command whose client went away; when ctx ends,
// another command ends it and its children, which carry a mark in their
// environment.
func (s *sandbox) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if err := ctx.Err(); err != nil {
		return provider.Result{}, err
	}
	if cmd.Stdin != nil {
		return provider.Result{}, errNoStdin
	}
	mark := mark()
	line, err := commandLine(cmd, mark)
	if err != nil {
		return provider.Result{}, err
	}
	out, code, err := s.execute(ctx, line, outputLimit(cmd))
	if err != nil {
		if ctx.Err() != nil {
			s.end(mark)
		}
		return provider.Result{}, err
	}
	if code < 0 {
		return provider.Result{}, &provider.Error{Kind: provider.Other, Op: "exec",
			Err: fmt.Errorf("the command was killed, or could not be started: %.200q", s.secrets.redact(out))}
	}
	return s.result(cmd, out, code)
}

func outputLimit(cmd provider.Command) int64 {
	if cmd.Stdout != nil || cmd.MaxOutput <= 0 {
		return provider.DefaultMaxOutput
	}
	return cmd.MaxOutput
}

func (s *sandbox) result(cmd provider.Command, out string, code int) (provider.Result, error) {
	res := provider.Result{ExitCode: code}
	if cmd.Stdout != nil {
		if out != "" {
			_, err := io.WriteString(cmd.Stdout, out)
			return res, err
		}
		return res, nil
	}
	held := provider.Collector{Max: cmd.MaxOutput}
	_, err := io.WriteString(&held, out)
	res.Stdout = held.Bytes()
	return res, err
}

// mark is a word that no other command has.
func mark() string { return "SBSYNC_CALL=" + rand.Text() }

// commandLine is the text for the daemon.
func commandLine(cmd provider.Command, mark string) (string, error) {
	if len(cmd.Args) == 0 {
		return "", provider.New(provider.Usage, "exec: no command given", "")
	}
	var script, plain strings.Builder
	script.WriteString("export " + mark + "\n")
	for name, value := range cmd.Env {
		if !shell.IsVariable(name) {
			return "", provider.New(provider.Usage, fmt.Sprintf("exec: %q can't be the name of an environment variable", name), "")
		}
		script.WriteString("export " + name + "=" + shell.Quote(value) + "\n")
	}
	if cmd.Dir != "" {
		script.WriteString("cd -- " + shell.Quote(cmd.Dir) + " || exit 1\n")
	}
	script.WriteString("exec")
	n := 0
	for _, arg := range cmd.Args {
		switch {
		case strings.IndexByte(arg, 0) >= 0:
			return "", provider.New(provider.Usage, fmt.Sprintf("exec: argument %.40q has a NUL byte", arg), "")
		case len(arg) > 256 && isPlain(arg):
			n++ // data, mostly base64 already
			script.WriteString(" \"${" + strconv.Itoa(n) + "}\"")
			plain.WriteString(" " + arg)
		default:
			script.WriteString(" " + shell.Quote(arg))
		}
	}
	text := base64.StdEncoding.EncodeToString([]byte(script.String()))
	words := slices.Collect(slices.Chunk([]byte(text), maxWord))
	line := launcher + " " + strconv.Itoa(len(words))
	return line + " " + string(bytes.Join(words, []byte(" "))) + plain.String(), nil
}

// isPlain says whether a word means itself to every shell and splitter.
func isPlain(word string) bool {
	for i := range len(word) {
		c := word[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '=') {
			return false
		}
	}
	return word != ""
}

// execute has the daemon run a command line.
func (s *sandbox) execute(ctx context.Context, line string, limit int64) (out string, code int, err error) {
	body, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		return "", 0, err
	}
	req, err := s.request(ctx, http.MethodPost, "/process/execute", nil, bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.do(req, "exec", http.StatusOK)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	// JSON shows a control character as six.
	text, err := io.ReadAll(io.LimitReader(res.Body, 6*limit+64<<10))
	if err != nil {
		return "", 0, s.lost(ctx, "exec", err)
	}
	var reply struct {
		ExitCode *int   `json:"exitCode"`
		Code     *int   `json:"code"` // of early daemons
		Result   string `json:"result"`
	}
	if int64(len(text)) == 6*limit+64<<10 {
		return "", 0, &provider.Error{Kind: provider.TooLarge, Op: "exec", Err: fmt.Errorf("the command wrote more than %d bytes", limit)}
	}
	if err := json.Unmarshal(text, &reply); err != nil || reply.ExitCode == nil && reply.Code == nil {
		return "", 0, &provider.Error{Kind: provider.Integrity, Op: "exec", Err: fmt.Errorf("the toolbox's answer is not understood: %.100q", s.secrets.redact(string(text)))}
	}
	if reply.ExitCode == nil {
		reply.ExitCode = reply.Code
	}
	return reply.Result, *reply.ExitCode, nil
}

// endTime is how long the end of a cancelled command is waited for.
const endTime = 5 * time.Second

// endScript ends every process that has the mark in its environment, itself not
// among them: it ignores the signal. What is left after a while is killed.
const endScript = `trap '' TERM
for sig in TERM KILL; do
	left=
	for p in /proc/[0-9]*; do
		if grep -q -F -e "$1" "$p/environ" 2>/dev/null; then kill -$sig "${p#/proc/}" 2>/dev/null && left=yes; fi
	done
	[ -n "$left" ] || exit 0
	sleep 1
done`

// end ends a command that nobody waits for any more. That it can't is no error:
// the caller has one.
func (s *sandbox) end(mark string) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	line, err := commandLine(provider.Command{Args: []string{"sh", "-c", endScript, "sh", mark}}, "SBSYNC_CALL=end")
	if err == nil {
		_, _, _ = s.execute(ctx, line, 1<<10)
	}
}

// messageOf takes the text out of an answer's JSON, whose fields differ from
// place to place.
func messageOf(body []byte) string {
	var known struct {
		Message any      `json:"message"`
		Error   any      `json:"error"`
		Errors  []string `json:"errors"`
	}
	if json.Unmarshal(body, &known) != nil {
		return string(body)
	}
	for _, text := range []any{known.Message, known.Error} {
		if t, ok := text.(string); ok && t != "" {
			return t
		}
	}
	if len(known.Errors) > 0 {
		return strings.Join(known.Errors, "; ")
	}
	return string(body)
}
