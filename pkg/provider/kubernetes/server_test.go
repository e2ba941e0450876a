//go:build unix

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// server is an API server with some pods, whose commands run on this machine.
type server struct {
	pods       []core.Pod
	dropStatus bool   // connections end before the exit code is sent
	noSPDY     bool   // as behind a proxy that knows nothing of it
	noShell    bool   // containers have no sh
	path       string // of commands; empty is the test's own
	keepTails  bool   // unlike real ones it loses no output of a command that exits

	running sync.WaitGroup
	refused atomic.Int32 // requests for SPDY that were turned down
}

// start returns the path of a kubeconfig for it.
func (s *server) start(t *testing.T) string {
	t.Helper()
	web := httptest.NewUnstartedServer(s)
	if !s.keepTails {
		web.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			_ = conn.(*net.TCPConn).SetWriteBuffer(32 << 10) // or it hides how slow the reader is
			return ctx
		}
	}
	web.Start()
	t.Cleanup(func() {
		web.Close()
		s.running.Wait() // Close does not know of connections that were taken over
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\n"+
		"users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}]\n", web.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	words := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	everywhere := r.URL.Path == "/api/v1/pods"
	switch {
	case words[0] == "secret":
		answer(w, 403, meta.Status{Reason: meta.StatusReasonForbidden, Message: `pods "x" is forbidden: cannot get resource "pods"`})
	case len(words) == 4 && words[3] == "exec" && words[0] == "readonly":
		answer(w, 403, meta.Status{Reason: meta.StatusReasonForbidden, Message: `pods "web-1" is forbidden: cannot create resource "pods/exec"`})
	case len(words) == 4 && words[3] == "exec":
		s.exec(w, r)
	case len(words) == 3:
		for _, p := range s.pods {
			if p.Name == words[2] && p.Namespace == words[0] {
				answer(w, 200, p)
				return
			}
		}
		answer(w, 404, meta.Status{Reason: meta.StatusReasonNotFound, Message: "not found"})
	default:
		list := core.PodList{TypeMeta: meta.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
		key, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
		for _, p := range s.pods {
			if r.URL.Query().Get("fieldSelector") == "status.phase=Running" && p.Status.Phase != core.PodRunning {
				continue
			}
			if (everywhere || p.Namespace == words[0]) && (key == "" || p.Labels[key] == value) {
				list.Items = append(list.Items, p)
			}
		}
		answer(w, 200, list)
	}
}

func answer(w http.ResponseWriter, code int, v any) {
	if st, ok := v.(meta.Status); ok {
		st.TypeMeta, st.Status, st.Code = meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, meta.StatusFailure, int32(code)
		v = st
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
