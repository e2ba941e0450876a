package docker

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
)

// environment is what the docker command reads to find its daemon
// (docs.docker.com/reference/cli/docker, "Environment variables").
type environment struct {
	host, context      string
	tls, tlsVerify     bool
	certPath, configAt string
}

func readEnvironment() environment {
	env := environment{host: os.Getenv("DOCKER_HOST"), context: os.Getenv("DOCKER_CONTEXT"),
		tls: os.Getenv("DOCKER_TLS") != "", tlsVerify: os.Getenv("DOCKER_TLS_VERIFY") != "",
		certPath: os.Getenv("DOCKER_CERT_PATH"), configAt: os.Getenv("DOCKER_CONFIG")}
	if env.configAt == "" {
		env.configAt = filepath.Join(remote.HomeDir(), ".docker")
	}
	if env.certPath == "" {
		env.certPath = env.configAt
	}
	return env
}

// endpoint is where a daemon listens.
type endpoint struct {
	host     string
	tls      bool
	insecure bool   // the daemon's certificate is not checked
	certs    string // the directory of ca.pem, cert.pem and key.pem, each optional
}

// endpoint decides in the order of the docker command: a host or context that
// is asked for, DOCKER_HOST, DOCKER_CONTEXT, the current context.
func (env environment) endpoint(set settings) (endpoint, error) {
	name := set.context
	switch {
	case name != "":
	case set.host != "":
		return env.direct(set.host), nil
	case env.host != "":
		return env.direct(env.host), nil
	case env.context != "":
		name = env.context
	default:
		var err error
		if name, err = env.currentContext(); err != nil {
			return endpoint{}, err
		}
	}
	if name == "" || name == "default" {
		host := env.host
		if host == "" {
			host = client.DefaultDockerHost
		}
		return env.direct(host), nil
	}
	return env.fromContext(name)
}

func (env environment) direct(host string) endpoint {
	return endpoint{host: host, tls: env.tls || env.tlsVerify, insecure: !env.tlsVerify, certs: env.certPath}
}

func (env environment) currentContext() (string, error) {
	name := filepath.Join(env.configAt, "config.json")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		return "", &provider.Error{Kind: provider.Usage, Op: fmt.Sprintf("read %q", name), Err: err}
	}
	return config.CurrentContext, nil
}

// fromContext reads a context as docker's context store keeps it: below the
// SHA-256 of its name.
func (env environment) fromContext(name string) (endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	file := filepath.Join(env.configAt, "contexts", "meta", id, "meta.json")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return endpoint{}, provider.New(provider.Usage, fmt.Sprintf("open docker: no context %q in %q", name, env.configAt),
			"docker context ls shows them; DOCKER_CONTEXT or docker context use chooses one")
	}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &meta)
	}
	if err != nil {
		return endpoint{}, &provider.Error{Kind: provider.Usage, Op: fmt.Sprintf("read %q", file), Err: err}
	}
	found := meta.Endpoints["docker"]
	if found.Host == "" {
		return endpoint{}, provider.New(provider.Usage, fmt.Sprintf("open docker: context %q names no docker host", name), "docker context inspect shows it")
	}
	e := endpoint{host: found.Host, insecure: found.SkipTLSVerify, certs: filepath.Join(env.configAt, "contexts", "tls", id, "docker")}
	_, err = os.Stat(e.certs)
	e.tls = err == nil || e.insecure
	return e, nil
}

// tlsConfig reads the certificates that are there.
func (e endpoint) tlsConfig() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: e.insecure}
	fail := func(name string, err error) (*tls.Config, error) {
		return nil, &provider.Error{Kind: provider.Usage, Op: fmt.Sprintf("read %q", filepath.Join(e.certs, name)), Err: err,
			Hint: "DOCKER_CERT_PATH names the directory of ca.pem, cert.pem and key.pem"}
	}
	ca, err := os.ReadFile(filepath.Join(e.certs, "ca.pem"))
	switch {
	case err == nil:
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(ca) {
			return fail("ca.pem", errors.New("there is no certificate in it"))
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fail("ca.pem", err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(e.certs, "cert.pem"), filepath.Join(e.certs, "key.pem"))
	switch {
	case err == nil:
		cfg.Certificates = []tls.Certificate{pair}
	case !errors.Is(err, fs.ErrNotExist):
		return fail("cert.pem", err)
	}
	return cfg, nil
}

// daemon is a client of one.
type daemon struct {
	*client.Client
	host string
}

// schemes of hosts, for docker's command. That for SSH is refused later.
var schemes = []string{"unix", "tcp", "npipe", "http", "https", "ssh"}

// connect makes a client; it talks to nobody yet. The version of the API is
// agreed upon with the first request.
func connect(set settings, env environment) (*daemon, error) {
	e, err := env.endpoint(set)
	if err != nil {
		return nil, err
	}
	scheme, _, ok := strings.Cut(e.host, "://")
	switch {
	case !ok || !slices.Contains(schemes, scheme):
		return nil, provider.New(provider.Usage, fmt.Sprintf("open docker: host %q is not understood", e.host), "hosts are like unix:///var/run/docker.sock or tcp://host:2376")
	case scheme == "ssh":
		return nil, provider.New(provider.Usage, fmt.Sprintf("open docker: hosts over SSH are not supported: %q", e.host),
			"forward the socket, as with ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST, and set DOCKER_HOST=unix:///tmp/docker.sock")
	}
	opts := []client.Opt{client.WithHost(e.host), client.WithAPIVersionFromEnv(), client.WithUserAgent("sbsync")}
	if e.tls && scheme == "tcp" {
		cfg, err := e.tlsConfig()
		if err != nil {
			return nil, err
		}
		// Figures of the client's own transport. It takes any that is given to
		// it for one with TLS.
		transport := &http.Transport{MaxIdleConns: 6, IdleConnTimeout: 30 * time.Second, TLSClientConfig: cfg}
		opts = append([]client.Opt{client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect})}, opts...)
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Usage, Op: fmt.Sprintf("open docker at %q", e.host), Err: err,
			Hint: "hosts are like unix:///var/run/docker.sock or tcp://host:2376"}
	}
	return &daemon{Client: c, host: e.host}, nil
}
