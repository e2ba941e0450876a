//go:build unix

package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// attached is one exec as the server sees it.
type attached struct {
	stdin                  io.Reader // nil if none was asked for
	stdout, stderr, status io.WriteCloser
	gone                   <-chan bool // the client has closed
	close                  func()
}

// exec runs the command, as a kubelet does.
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Done()
	var to *attached
	switch {
	case wsstream.IsWebSocketRequest(r):
		to = acceptWebSocket(w, r)
	case s.noSPDY:
		s.refused.Add(1)
		http.Error(w, "<html>400 Bad Request</html>", http.StatusBadRequest)
	default:
		to = acceptSPDY(w, r)
	}
	if to == nil {
		return
	}
	defer to.close()
	status := meta.Status{Status: meta.StatusFailure, Message: `exec: "sh": executable file not found in $PATH: unknown`}
	if !s.noShell {
		status = to.run(r.URL.Query()["command"], s.path, s.keepTails)
	}
	if s.dropStatus {
		return
	}
	text, _ := json.Marshal(status)
	_, _ = to.status.Write(text)
	for _, out := range []io.Closer{to.stdout, to.stderr, to.status} {
		_ = out.Close()
	}
	if s.noShell {
		go to.drain()
	}
	if to.gone != nil {
		select {
		case <-to.gone:
		case <-time.After(10 * time.Second):
		}
	}
}

func acceptSPDY(w http.ResponseWriter, r *http.Request) *attached {
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		return nil
	}
	wanted := 3
	if r.URL.Query().Get("stdin") == "true" {
		wanted++
	}
	arrived := make(chan httpstream.Stream, wanted)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(st httpstream.Stream, _ <-chan struct{}) error {
		arrived <- st
		return nil
	})
	if conn == nil {
		return nil
	}
	by := map[string]httpstream.Stream{}
	for range wanted {
		select {
		case st := <-arrived:
			by[st.Headers().Get(core.StreamType)] = st
		case <-conn.CloseChan():
			return nil
		}
	}
	to := &attached{stdout: by["stdout"], stderr: by["stderr"], status: by["error"], gone: conn.CloseChan(), close: func() { _ = conn.Close() }}
	if in := by["stdin"]; in != nil {
		to.stdin = in
	}
	return to
}

func acceptWebSocket(w http.ResponseWriter, r *http.Request) *attached {
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": {Binary: true, Channels: []wsstream.ChannelType{
		wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel}}})
	_, channels, err := conn.Open(w, r)
	if err != nil {
		return nil
	}
	to := &attached{stdout: channels[1], stderr: channels[2], status: channels[3], close: func() { _ = conn.Close() }}
	if r.URL.Query().Get("stdin") == "true" {
		to.stdin = channels[0]
	}
	return to
}

// afterExit is what still comes of the output of a command that has exited: the
// real ones lose the rest of it if the reader is slow (kubernetes/kubernetes#124571).
const afterExit = 16 << 10

// drain takes the input that nobody reads: behind it the connection's end is not
// seen.
func (to *attached) drain() {
	if to.stdin != nil {
		_, _ = io.Copy(io.Discard, to.stdin)
	}
}

// run runs a command with the faults of containerd's streams.
func (to *attached) run(args []string, path string, keepTail bool) meta.Status {
	cmd := exec.Command(args[0], args[1:]...)
	if path != "" {
		cmd.Path, cmd.Err = filepath.Join(path, args[0]), nil
		cmd.Env = append(os.Environ(), "PATH="+path)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as runc does
	var ours, theirs []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return failure(err)
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	ours[0], theirs[0] = theirs[0], ours[0] // of stdin the other end is ours
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	err := cmd.Start()
	for _, f := range theirs {
		f.Close()
	}
	defer func() {
		for _, f := range ours {
			f.Close()
		}
	}()
	if err != nil {
		go to.drain()
		return failure(err)
	}
	go func() {
		if to.stdin != nil {
			_, _ = io.Copy(ours[0], to.stdin)
		}
		ours[0].Close()
		to.drain()
	}()
	exited := make(chan struct{})
	copied := make(chan struct{}, 2)
	for i, out := range []io.Writer{to.stdout, to.stderr} {
		go func() {
			if keepTail {
				_, _ = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{ours[i+1]}, make([]byte, 64<<10))
			} else {
				passOn(out, ours[i+1], exited)
			}
			ours[0].Close() // containerd/containerd#13934: stdin ends with either output
			copied <- struct{}{}
		}()
	}
	_ = cmd.Wait()
	close(exited)
	for _, f := range ours[1:] {
		if !keepTail { // nor does what its children keep open count
			_ = f.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		}
	}
	<-copied
	<-copied
	code := cmd.ProcessState.ExitCode()
	if code < 0 {
		code = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	if code == 0 {
		return meta.Status{Status: meta.StatusSuccess}
	}
	return meta.Status{Status: meta.StatusFailure, Reason: "NonZeroExitCode", Details: &meta.StatusDetails{
		Causes: []meta.StatusCause{{Type: "ExitCode", Message: fmt.Sprint(code)}}}}
}

// passOn copies until the output ends, or its process and little more than that.
func passOn(to io.Writer, from io.Reader, exited <-chan struct{}) {
	buf := make([]byte, afterExit)
	for late := 0; late < afterExit; {
		n, err := from.Read(buf)
		if _, werr := to.Write(buf[:n]); werr != nil || err != nil {
			return
		}
		select {
		case <-exited:
			late += n
		default:
		}
	}
}

func failure(err error) meta.Status {
	return meta.Status{Status: meta.StatusFailure, Message: strings.ToLower(err.Error())}
}
