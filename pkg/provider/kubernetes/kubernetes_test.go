//go:build unix

package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

func pod(name, app string, phase core.PodPhase, containers ...string) core.Pod {
	p := core.Pod{TypeMeta: meta.TypeMeta{Kind: "Pod", APIVersion: "v1"}}
	p.Name, p.Namespace, p.Labels, p.Status.Phase = name, "shop", map[string]string{"app": app}, phase
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, core.Container{Name: c})
		st := core.ContainerStatus{Name: c}
		if phase == core.PodRunning {
			st.State.Running = &core.ContainerStateRunning{}
		} else {
			st.State.Waiting = &core.ContainerStateWaiting{Reason: "ImagePullBackOff"}
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, st)
	}
	return p
}

var pods = []core.Pod{
	pod("web-1", "web", core.PodRunning, "main", "side"),
	pod("twin-a", "twin", core.PodRunning, "main"),
	pod("twin-b", "twin", core.PodRunning, "main"),
	pod("starting", "slow", core.PodPending, "main"),
	pod("done", "job", core.PodSucceeded, "main"),
	readOnly(pod("web-1", "web", core.PodRunning, "main")),
}

// readOnly puts a pod into a namespace where exec is forbidden.
func readOnly(p core.Pod) core.Pod {
	p.Namespace = "readonly"
	return p
}

// open returns a sandbox whose commands run on this machine.
func open(t *testing.T, s *server, protocol string) provider.Sandbox {
	t.Helper()
	sb, err := Driver{}.Open(t.Context(), "web-1", provider.Config{"kubeconfig": s.start(t), "exec_protocol": protocol})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

// lossless says of a sandbox whose server keeps all output that it does, so that
// the suite need not sleep before each command ends. What is lost otherwise is
// the matter of TestPushAndPull.
type lossless struct{ *sandbox }

func (l lossless) Capabilities() provider.Capabilities {
	caps := l.sandbox.Capabilities()
	caps.EarlyExit = false
	return caps
}

func TestSuite(t *testing.T) {
	providertest.NoLeaks(t)
	t.Run("over", func(t *testing.T) { // so that NoLeaks comes after those in parallel
		for _, protocol := range []string{protocolSPDY, protocolWebSocket} {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel() // the suite waits most of the time
				providertest.Suite(t, func(t *testing.T) (provider.Sandbox, string) {
					return lossless{open(t, &server{pods: pods, keepTails: true}, protocol).(*sandbox)}, t.TempDir()
				})
			})
		}
	})
}

// What a person reads says what is wrong and what there is instead.
func TestOpen(t *testing.T) {
	config := provider.Config{"kubeconfig": (&server{pods: pods}).start(t)}
	for ref, tc := range map[string]struct {
		kind provider.Kind
		want string // in error or hint; empty is success
	}{
		"web-1":           {},
		"shop/web-1/side": {},
		"/web-1/side":     {},
		"app=web":         {},
		"app=twin":        {provider.Usage, "twin-a, twin-b"},
		"app=slow":        {provider.NotFound, "no running pod matches"},
		"web-2":           {provider.NotFound, `did you mean "web-1"?`},
		"/web-1/sdie":     {provider.NotFound, "it has main, side"},
		"starting":        {provider.NotFound, "ImagePullBackOff"},
		"done":            {provider.NotFound, "it has ended (succeeded)"},
		"secret/web-1":    {provider.Unauthorized, `allows "get" on "pods"`},
		"readonly/web-1":  {provider.Unauthorized, `allows "create" on "pods/exec"`},
		"a/b/c/d":         {provider.Usage, "more than three parts"},
		"shop/":           {provider.Usage, "no pod"},
	} {
		sb, err := Driver{}.Open(t.Context(), ref, config)
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", ref, err)
			} else {
				sb.Close()
			}
			continue
		}
		if err == nil || provider.KindOf(err) != tc.kind || !strings.Contains(err.Error()+provider.HintOf(err), tc.want) {
			t.Errorf("%s: error %v (%s) of kind %v, want %q", ref, err, provider.HintOf(err), provider.KindOf(err), tc.want)
		}
	}
}

// paused is a text that stops for a moment in the middle.
func paused(text string) io.Reader {
	half := len(text) / 2
	return io.MultiReader(strings.NewReader(text[:half]), &pause{200 * time.Millisecond}, strings.NewReader(text[half:]))
}

type pause struct{ time.Duration }

func (p *pause) Read([]byte) (int, error) {
	time.Sleep(p.Duration)
	return 0, io.EOF
}

// containerd ends the input with the output; as the server says of itself when
// it is asked without our shell.
func TestInputGoesOnAfterOutputHasEnded(t *testing.T) {
	providertest.NoLeaks(t)
	input := strings.Repeat("0123456789abcdef", 1<<16)
	for _, protocol := range []string{protocolSPDY, protocolWebSocket} {
		sb := open(t, &server{pods: pods}, protocol).(*sandbox)
		script := []string{"sh", "-c", `exec cat >"$1"`, "sh", filepath.Join(t.TempDir(), "file")}
		size := func() int64 {
			info, err := os.Stat(script[4])
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		res, err := sb.run(t.Context(), script, provider.Command{Stdin: paused(input)}, nil)
		if got := size(); err != nil || res.ExitCode != 0 || got == int64(len(input)) {
			t.Errorf("%s, bare: %d bytes, exit code %d, %v; the server loses nothing", protocol, got, res.ExitCode, err)
		}
		res, err = sb.Exec(t.Context(), provider.Command{Args: script, Stdin: paused(input)})
		if got := size(); err != nil || res.ExitCode != 0 || got != int64(len(input)) {
			t.Errorf("%s: %d of %d bytes, exit code %d, %v", protocol, got, len(input), res.ExitCode, err)
		}
	}
}

// lateWriter, which is slow, notes what is still being written when its call is
// over.
type lateWriter struct {
	began      chan struct{}
	once       sync.Once
	over, late atomic.Bool
}

func (w *lateWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.began) })
	time.Sleep(20 * time.Millisecond)
	if w.over.Load() {
		w.late.Store(true)
	}
	return len(p), nil
}

func TestNoOutputAfterACancelledCall(t *testing.T) {
	providertest.NoLeaks(t)
	for _, protocol := range []string{protocolSPDY, protocolWebSocket} {
		sb := open(t, &server{pods: pods}, protocol)
		ctx, cancel := context.WithCancel(t.Context())
		w := &lateWriter{began: make(chan struct{})}
		go func() { <-w.began; cancel() }()
		never, end := io.Pipe() // an input that never comes
		_, err := sb.Exec(ctx, provider.Command{Args: []string{"sh", "-c", "while :; do echo x; done"}, Stdin: never, Stdout: w})
		w.over.Store(true)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", protocol, err)
		}
		end.Close()                        // now the Read of the input ends
		time.Sleep(100 * time.Millisecond) // more than a Write takes
		if w.late.Load() {
			t.Errorf("%s: output is written after the call", protocol)
		}
	}
}

func TestComplete(t *testing.T) {
	t.Setenv("KUBECONFIG", (&server{pods: pods}).start(t))
	for prefix, want := range map[string][]string{
		"":            {"readonly/web-1", "twin-a", "twin-b", "web-1"},
		"web":         {"web-1"},
		"re":          {"readonly/web-1"},
		"shop/t":      {"shop/twin-a", "shop/twin-b"},
		"/web-1/":     {"/web-1/main", "/web-1/side"},
		"shop/web-1/": {"shop/web-1/main", "shop/web-1/side"},
		"shop/none/":  nil,
		"a/b/c/":      nil,
	} {
		got, _ := Driver{}.Complete(t.Context(), prefix)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}

// WebSocket's refusals say as much as SPDY's.
func TestForbiddenOverWebSocket(t *testing.T) {
	_, err := Driver{}.Open(t.Context(), "readonly/web-1", provider.Config{"kubeconfig": (&server{pods: pods}).start(t), "exec_protocol": "websocket"})
	if provider.KindOf(err) != provider.Unauthorized || !strings.Contains(provider.HintOf(err), `"create" on "pods/exec"`) {
		t.Errorf("error %v (%s)", err, provider.HintOf(err))
	}
}

// client-go's own executor takes this for success.
func TestConnectionThatEndsBeforeTheExitCode(t *testing.T) {
	_, err := Driver{}.Open(t.Context(), "web-1", provider.Config{"kubeconfig": (&server{pods: pods, dropStatus: true}).start(t)})
	if provider.KindOf(err) != provider.Unreachable || !provider.IsTemporary(err) {
		t.Errorf("error %v, want a temporary one", err)
	}
}

// Both protocols start the same command: a proxy that does not know SPDY costs
// one request, and the user can see it.
func TestFallback(t *testing.T) {
	providertest.NoLeaks(t)
	s := &server{pods: pods, noSPDY: true}
	sb := open(t, s, protocolAuto)
	for range 2 {
		res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"echo", "hello"}})
		if err != nil || string(res.Stdout) != "hello\n" {
			t.Errorf("%q, %v", res.Stdout, err)
		}
	}
	if notes := sb.Capabilities().Notes; s.refused.Load() != 1 || !strings.Contains(notes[0], "websocket: SPDY was not taken: 400 Bad Request") {
		t.Errorf("%d requests for SPDY, %q", s.refused.Load(), notes)
	}
	_, err := Driver{}.Open(t.Context(), "web-1", provider.Config{"kubeconfig": s.start(t), "exec_protocol": "spdy"})
	if provider.KindOf(err) != provider.Unreachable || !strings.Contains(provider.HintOf(err), "exec_protocol") {
		t.Errorf("SPDY alone: error %v (%s)", err, provider.HintOf(err))
	}
}

func TestContainerWithoutShell(t *testing.T) {
	_, err := Driver{}.Open(t.Context(), "web-1", provider.Config{"kubeconfig": (&server{pods: pods, noShell: true}).start(t)})
	if provider.KindOf(err) != provider.Missing || !strings.Contains(err.Error(), "no sh") || provider.HintOf(err) == "" {
		t.Errorf("error %v (%s)", err, provider.HintOf(err))
	}
}

// Only the shell's own absence is one: other messages have the same words.
func TestStatus(t *testing.T) {
	for message, want := range map[string]provider.Kind{
		`OCI runtime exec failed: exec failed: unable to start container process: exec: "sh": executable file not found in $PATH: unknown`: provider.Missing,
		"executable file `sh` not found in $PATH: No such file or directory":                                                               provider.Missing,
		`failed to open fifo "/run/containerd/io/12-stdin": no such file or directory`:                                                     provider.Unreachable,
	} {
		text, _ := json.Marshal(meta.Status{Status: meta.StatusFailure, Message: message})
		if err := statusError("exec", text); provider.KindOf(err) != want {
			t.Errorf("%s: %v", message, err)
		}
	}
}

func TestEnvironmentNames(t *testing.T) {
	for _, name := range []string{"A;touch pwn", "", "1A", "A B", "A=B", "a.b"} {
		if _, err := wrap(provider.Command{Args: []string{"true"}, Env: map[string]string{name: "x"}}, "w"); provider.KindOf(err) != provider.Usage {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for key, want := range map[string]string{"contxt": `did you mean "context"?`, "exec_protocol": "spdy or websocket"} {
		_, err := Driver{}.Open(t.Context(), "web-1", provider.Config{key: "x"})
		if provider.KindOf(err) != provider.Usage || !strings.Contains(provider.HintOf(err), want) {
			t.Errorf("%s: %v (%s)", key, err, provider.HintOf(err))
		}
	}
}
