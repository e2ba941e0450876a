//go:build unix

package docker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeContext writes a context as `docker context create` does, and returns the
// directory for its certificates.
func writeContext(t *testing.T, name, host string, skipVerify bool) string {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	id, dir := hex.EncodeToString(sum[:]), os.Getenv("DOCKER_CONFIG")
	meta, _ := json.Marshal(map[string]any{"Name": name, "Metadata": map[string]any{}, "Endpoints": map[string]any{"docker": map[string]any{"Host": host, "SkipTLSVerify": skipVerify}}})
	write(t, filepath.Join(dir, "contexts", "meta", id, "meta.json"), string(meta))
	return filepath.Join(dir, "contexts", "tls", id, "docker")
}

// Who is asked, in docker's own order.
func TestWhichDaemon(t *testing.T) {
	right := newEngine(t)
	good, bad := "unix://"+right.socket, "unix://"+filepath.Join(t.TempDir(), "nobody")
	for name, tc := range map[string]struct {
		host, context, current string // DOCKER_HOST, DOCKER_CONTEXT, currentContext
		cfg                    provider.Config
	}{
		"DOCKER_HOST":                        {host: good},
		"DOCKER_HOST before DOCKER_CONTEXT":  {host: good, context: "bad", current: "bad"},
		"DOCKER_CONTEXT":                     {context: "good"},
		"DOCKER_CONTEXT before config.json":  {context: "good", current: "bad"},
		"config.json":                        {current: "good"},
		"DOCKER_HOST is the default context": {host: good, current: "bad", context: "default"},
		"the setting host before all":        {host: bad, context: "bad", current: "bad", cfg: provider.Config{"host": good}},
		"the setting context before all":     {host: bad, context: "bad", current: "bad", cfg: provider.Config{"context": "good"}},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			writeContext(t, "good", good, false)
			writeContext(t, "bad", bad, false)
			t.Setenv("DOCKER_HOST", tc.host)
			t.Setenv("DOCKER_CONTEXT", tc.context)
			if tc.current != "" {
				write(t, filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), `{"auths": {}, "currentContext": "`+tc.current+`"}`)
			}
			if _, err := open(t, "web", tc.cfg); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNoDaemon(t *testing.T) {
	for name, tc := range map[string]struct {
		host, context string
		config        string // config.json
		kind          provider.Kind
		says          []string
	}{
		"nobody at the socket":           {host: "unix:///nowhere/docker.sock", kind: provider.Unreachable, says: []string{"unix:///nowhere/docker.sock", "is it running?", "docker context"}},
		"nobody at the port":             {host: "tcp://127.0.0.1:1", kind: provider.Unreachable, says: []string{"tcp://127.0.0.1:1"}},
		"ssh":                            {host: "ssh://host", kind: provider.Usage, says: []string{"not supported", "ssh -nNT -L"}},
		"no scheme":                      {host: "localhost", kind: provider.Usage, says: []string{"unix:///var/run/docker.sock"}},
		"a strange scheme":               {host: "gopher://host", kind: provider.Usage, says: []string{"gopher"}},
		"no such context":                {context: "lab", kind: provider.Usage, says: []string{`no context "lab"`, "docker context ls"}},
		"a broken config.json":           {config: "{", kind: provider.Usage, says: []string{"config.json"}},
		"a current context that is gone": {config: `{"currentContext": "gone"}`, kind: provider.Usage, says: []string{`no context "gone"`}},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			t.Setenv("DOCKER_HOST", tc.host)
			t.Setenv("DOCKER_CONTEXT", tc.context)
			if tc.config != "" {
				write(t, filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), tc.config)
			}
			_, err := open(t, "web", nil)
			expect(t, err, tc.kind, tc.says...)
		})
	}
}

// tlsEngine listens on a port, and returns its certificate.
func tlsEngine(t *testing.T) (host, certificate string) {
	t.Helper()
	server := httptest.NewUnstartedServer(newEngine(t))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return "tcp://" + server.Listener.Addr().String(), certificate
}

func TestTLS(t *testing.T) {
	host, certificate := tlsEngine(t)
	t.Run("by the environment", func(t *testing.T) {
		clean(t)
		t.Setenv("DOCKER_HOST", host)
		_, err := open(t, "web", nil)
		expect(t, err, provider.Unauthorized, "DOCKER_TLS_VERIFY")

		t.Setenv("DOCKER_TLS_VERIFY", "1")
		_, err = open(t, "web", nil)
		expect(t, err, provider.Unauthorized, "certificate", "DOCKER_CERT_PATH")

		dir := t.TempDir()
		write(t, filepath.Join(dir, "ca.pem"), certificate)
		t.Setenv("DOCKER_CERT_PATH", dir)
		works(t)

		write(t, filepath.Join(dir, "ca.pem"), "rubbish")
		_, err = open(t, "web", nil)
		expect(t, err, provider.Usage, "ca.pem")

		t.Setenv("DOCKER_TLS_VERIFY", "")
		t.Setenv("DOCKER_CERT_PATH", "")
		t.Setenv("DOCKER_TLS", "1")
		works(t)
	})
	t.Run("by a context", func(t *testing.T) {
		clean(t)
		certs := writeContext(t, "lab", host, false)
		write(t, filepath.Join(certs, "ca.pem"), certificate)
		t.Setenv("DOCKER_CONTEXT", "lab")
		works(t)
		writeContext(t, "careless", host, true)
		t.Setenv("DOCKER_CONTEXT", "careless")
		works(t)
	})
}

// works runs a command with input, whose end must arrive over TLS too.
func works(t *testing.T) {
	t.Helper()
	sb, err := open(t, "web", nil)
	if err != nil {
		t.Error(err)
		return
	}
	res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"cat"}, Stdin: strings.NewReader("input")})
	if err != nil || string(res.Stdout) != "input" {
		t.Errorf("cat says %q, %v", res.Stdout, err)
	}
}
