//go:build linux

package daytonatest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// ID, Name and Key are the sandbox's, and the API key that the server takes.
const (
	ID   = "0f4b2a1e-test"
	Name = "box"
	Key  = "dtn_test_key_5ee6ad"
)

// Options of a server. The zero value is a daemon 0.190 whose sandbox runs.
type Options struct {
	Daemon    int    // its version's second number; 0 is 190
	Path      string // PATH of commands, instead of this process's
	State     string // of the sandbox; empty is "started"
	Starting  int    // how often it is "starting" after it was started
	MaxOutput int    // an answer's output is cut here, silently; 0: never
}

// Fault makes requests fail.
type Fault struct {
	On     string // what the method and path contain, such as "POST /files/bulk-upload"
	Times  int    // how many requests; 0 is all
	After  int    // how many go well first
	Status int    // the answer; 0: the request is served
	Header map[string]string
	Body   string
	Cut    int64 // of what is served, so many bytes arrive, and then the connection breaks
	Stall  bool  // no answer comes
}

// Server is a running server.
type Server struct {
	opts Options
	http *httptest.Server
	URL  string // of the control plane, for DAYTONA_API_URL

	mu       sync.Mutex
	state    string
	starting int
	starts   int
	faults   []*Fault
	requests []string
	headers  []http.Header
	running  map[*exec.Cmd]bool
	broken   int // uploads that broke off
	stop     chan struct{}
}

// Open starts a server that ends with the test.
func Open(t testing.TB, opts Options) *Server {
	if opts.Daemon == 0 {
		opts.Daemon = 190
	}
	if opts.State == "" {
		opts.State = "started"
	}
	s := &Server{opts: opts, state: opts.State, starting: opts.Starting, running: map[*exec.Cmd]bool{}, stop: make(chan struct{})}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL + "/api"
	t.Cleanup(func() {
		close(s.stop)
		s.killAll()
		if tr, ok := http.DefaultTransport.(*http.Transport); ok { // the SDK's
			tr.CloseIdleConnections()
		}
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Requests are the methods and paths of all requests to the sandbox's toolbox
// that contain text.
func (s *Server) Requests(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, r := range s.requests {
		if strings.Contains(r, text) {
			list = append(list, r)
		}
	}
	return list
}

// Header is that of the last request.
func (s *Server) Header() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[len(s.headers)-1]
}

// BrokenUploads counts the uploads whose body broke off, with which daemons up
// to 0.174 never end.
func (s *Server) BrokenUploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Starts counts the requests to start the sandbox.
func (s *Server) Starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/toolbox/"+ID)
	s.mu.Lock()
	s.requests, s.headers = append(s.requests, what), append(s.headers, r.Header.Clone())
	f := s.fault(what)
	s.mu.Unlock()
	if f != nil {
		switch {
		case f.Stall:
			select {
			case <-r.Context().Done():
			case <-s.stop:
			}
			return
		case f.Status != 0:
			for name, value := range f.Header {
				w.Header().Set(name, value)
			}
			w.WriteHeader(f.Status)
			fmt.Fprint(w, f.Body)
			return
		}
		w = &cutter{ResponseWriter: w, left: f.Cut}
	}
	if r.Header.Get("Authorization") != "Bearer "+Key {
		answer(w, http.StatusUnauthorized, map[string]any{"message": "Unauthorized: " + r.Header.Get("Authorization")})
		return
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/"):
		s.control(w, r)
	case s.stateNow() != "started":
		answer(w, http.StatusBadRequest, map[string]any{"message": "failed to resolve container IP"})
	case strings.HasPrefix(r.URL.Path, "/toolbox/"+ID+"/"):
		s.toolbox(w, r, what)
	default:
		answer(w, http.StatusNotFound, map[string]any{"message": "not found"})
	}
}

// fault returns the fault that a request meets.
func (s *Server) fault(what string) *Fault {
	for i, f := range s.faults {
		if !strings.Contains(what, f.On) {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			}
		}
		return f
	}
	return nil
}

func (s *Server) stateNow() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// control is the control plane, as much of it as the SDK asks for.
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	ref, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/sandbox/"), "/")
	if ref != ID && ref != Name {
		answer(w, http.StatusNotFound, map[string]any{"message": "Sandbox with ID or name " + ref + " not found"})
		return
	}
	switch r.Method + " " + verb {
	case "GET ":
		answer(w, http.StatusOK, s.describe(true))
	case "GET toolbox-proxy-url":
		answer(w, http.StatusOK, map[string]any{"url": s.http.URL + "/toolbox"})
	case "POST start":
		s.mu.Lock()
		s.starts++
		s.state, s.starting = "starting", s.opts.Starting
		s.mu.Unlock()
		answer(w, http.StatusOK, s.describe(false))
	default:
		answer(w, http.StatusNotFound, map[string]any{"message": "not found"})
	}
}

func (s *Server) describe(look bool) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if look && s.state == "starting" {
		if s.starting--; s.starting < 0 {
			s.state = "started"
		}
	}
	return map[string]any{"id": ID, "organizationId": "org", "name": Name, "user": "daytona", "env": map[string]string{}, "labels": map[string]string{},
		"public": false, "networkBlockAll": false, "target": "local", "cpu": 2, "gpu": 0, "memory": 4, "disk": 10, "state": s.state}
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value)
}

// cutter breaks the connection after so many bytes.
type cutter struct {
	http.ResponseWriter
	left int64
}

func (c *cutter) Write(p []byte) (int, error) {
	n := min(int64(len(p)), c.left)
	c.left -= n
	if written, err := c.ResponseWriter.Write(p[:n]); err != nil || n == int64(len(p)) {
		return written, err
	}
	http.NewResponseController(c.ResponseWriter).Flush()
	time.Sleep(10 * time.Millisecond) // so that what was written is not lost with the connection
	panic(http.ErrAbortHandler)
}
