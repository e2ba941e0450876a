//go:build unix

package docker_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// engine answers like a Docker Engine whose container "web" is this machine.
type engine struct {
	server *httptest.Server
	socket string

	status    string // of the container
	ambiguous bool   // ids are
	cutAfter  int    // bytes of output, if more than 0; then the connection breaks
	forgets   bool   // execs that have ended
	slow      int    // so many times an exec that has ended is said to run
	refuses   string // what the start of an exec is answered with

	mu    sync.Mutex
	execs map[string]*engineExec
	paths []string
}

type engineExec struct {
	Cmd, Env    []string
	AttachStdin bool
	running     bool
	code        int
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	e := &engine{status: "running", execs: map[string]*engineExec{}, socket: filepath.Join(t.TempDir(), "s")}
	listener, err := net.Listen("unix", e.socket)
	if err != nil {
		t.Fatal(err)
	}
	e.server = httptest.NewUnstartedServer(e)
	e.server.Listener.Close()
	e.server.Listener = listener
	e.server.Start()
	t.Cleanup(e.server.Close)
	clean(t)
	t.Setenv("DOCKER_HOST", "unix://"+e.socket)
	return e
}

// clean takes away what the machine's own docker is configured with.
func clean(t *testing.T) {
	t.Helper()
	for _, name := range []string{"HOST", "CONTEXT", "TLS", "TLS_VERIFY", "CERT_PATH", "API_VERSION"} {
		t.Setenv("DOCKER_"+name, "")
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.paths = append(e.paths, r.URL.Path)
	e.mu.Unlock()
	w.Header().Set("Api-Version", "1.41")
	path := strings.TrimPrefix(r.URL.Path, "/v1.41")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/_ping":
	case path == "/containers/json":
		reply(w, 200, []map[string]any{{"Names": []string{"/web", "/other/alias"}}, {"Names": []string{"/worker"}}})
	case parts[0] == "containers" && parts[2] == "json":
		e.container(w, parts[1])
	case parts[0] == "containers" && parts[2] == "exec":
		e.create(w, r)
	case parts[0] == "exec" && parts[2] == "start":
		e.start(w, r, e.exec(parts[1]))
	case parts[0] == "exec":
		e.inspect(w, parts[1])
	default:
		refuse(w, 404, "page not found")
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, text string) {
	reply(w, status, map[string]string{"message": text})
}

func (e *engine) container(w http.ResponseWriter, name string) {
	switch {
	case e.ambiguous:
		refuse(w, 400, "Multiple IDs found with provided prefix: "+name)
	case name != "web" && name != "0123":
		refuse(w, 404, "No such container: "+name)
	default:
		up := e.status == "running" || e.status == "paused" || e.status == "restarting"
		reply(w, 200, map[string]any{"Id": "0123", "State": map[string]any{"Status": e.status, "Running": up, "Paused": e.status == "paused", "Restarting": e.status == "restarting"}})
	}
}

func (e *engine) create(w http.ResponseWriter, r *http.Request) {
	if e.status != "running" {
		refuse(w, 409, "Container 0123 is not running")
		return
	}
	x := new(engineExec)
	json.NewDecoder(r.Body).Decode(x)
	e.mu.Lock()
	defer e.mu.Unlock()
	id := fmt.Sprint(len(e.execs))
	e.execs[id] = x
	reply(w, 201, map[string]string{"Id": id})
}

func (e *engine) exec(id string) *engineExec {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.execs[id]
}

func (e *engine) inspect(w http.ResponseWriter, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.forgets {
		refuse(w, 404, "No such exec instance: "+id)
		return
	}
	x := e.execs[id]
	running, code := x.running, any(x.code)
	if e.slow > 0 && !running {
		e.slow--
		running = true
	}
	if running {
		code = nil
	}
	reply(w, 200, map[string]any{"ID": id, "Running": running, "ExitCode": code})
}

// start runs the command, with its streams on the connection.
func (e *engine) start(w http.ResponseWriter, r *http.Request, x *engineExec) {
	var opt struct{ Detach bool }
	json.NewDecoder(r.Body).Decode(&opt)
	cmd := exec.Command(x.Cmd[0], x.Cmd[1:]...)
	cmd.Env = append(os.Environ(), x.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as runc does
	if opt.Detach {
		cmd.Run()
		w.WriteHeader(200)
		return
	}
	conn, buffered, _ := w.(http.Hijacker).Hijack()
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	out := &muxed{conn: conn, cutAfter: e.cutAfter}
	cmd.Stdout, cmd.Stderr = stream{out, 1}, stream{out, 2}
	if e.refuses != "" {
		io.WriteString(cmd.Stdout, e.refuses)
		e.set(x, false, 126)
		return
	}
	if x.AttachStdin {
		stdin, _ := cmd.StdinPipe()
		go func() { io.Copy(stdin, buffered); stdin.Close() }()
	}
	e.set(x, true, 0)
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
	}
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if code = exit.ExitCode(); code < 0 {
			code = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
	}
	e.set(x, false, code)
}

func (e *engine) set(x *engineExec, running bool, code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x.running, x.code = running, code
}

// muxed is a connection that carries two streams, in frames with a header of 8
// bytes.
type muxed struct {
	mu       sync.Mutex
	conn     net.Conn
	cutAfter int
}

type stream struct {
	*muxed
	number byte
}

func (s stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	head := [8]byte{0: s.number}
	binary.BigEndian.PutUint32(head[4:], uint32(len(p)))
	frame := append(head[:], p...)
	if s.cutAfter > 0 && s.number == 1 {
		frame = frame[:min(len(frame), s.cutAfter)]
		s.conn.Write(frame)
		s.conn.Close()
		return len(p), nil
	}
	if _, err := s.conn.Write(frame); err != nil {
		return 0, err
	}
	return len(p), nil
}
