// Package kubernetes reaches the containers of pods.
//
// Targets are kubernetes:[namespace/]pod[/container]:/path, or with a label
// selector in place of the pod's name, which must match exactly one running
// pod: k8s:shop/app=web:/srv. Clusters and credentials are those of kubectl:
// KUBECONFIG, ~/.kube/config, or the pod's own service account. Namespace and
// container default as they do there.
//
// Commands run by exec over SPDY or WebSocket; the container needs a sh.
package kubernetes

import (
	"context"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
)

// Driver opens pods. The zero value is ready.
type Driver struct{}

// Name is "kubernetes".
func (Driver) Name() string { return "kubernetes" }

// Aliases has the usual short form.
func (Driver) Aliases() []string { return []string{"k8s"} }

// Summary is one line.
func (Driver) Summary() string { return "a container of a Kubernetes pod: [namespace/]pod[/container]" }

// HasRef is true.
func (Driver) HasRef() bool { return true }

// Open finds the pod, chooses the container and runs one command in it that
// changes nothing. The keys of cfg are context, kubeconfig and exec_protocol (auto, spdy, websocket).
func (Driver) Open(ctx context.Context, ref string, cfg provider.Config) (provider.Sandbox, error) {
	set, err := readSettings(cfg)
	if err != nil {
		return nil, err
	}
	where, err := parseReference(ref)
	if err != nil {
		return nil, err
	}
	c, err := connect(set)
	if err != nil {
		return nil, err
	}
	if where.namespace == "" {
		where.namespace = c.namespace
	}
	ctx, cancel := context.WithTimeout(ctx, provider.DialTimeout)
	defer cancel()
	if where, err = c.find(ctx, where); err != nil {
		return nil, err
	}
	sb := &sandbox{client: c, where: where, word: remote.Word()}
	if err := sb.greet(ctx, set.protocol); err != nil {
		return nil, err
	}
	return sb, nil
}
