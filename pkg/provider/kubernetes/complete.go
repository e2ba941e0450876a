package kubernetes

import (
	"context"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sbsync/sbsync/pkg/provider"
)

// mostOffered bounds a request for completion, which somebody waits for.
const mostOffered = 500

// Complete offers the running pods of the context's namespace, namespace/pod for
// those of the others, as far as they may be listed, and after namespace/pod/
// the containers. It knows nothing of settings in sbsync's own configuration.
func (Driver) Complete(ctx context.Context, prefix string) ([]string, error) {
	c, err := connect(settings{})
	if err != nil {
		return nil, err
	}
	words := strings.Split(prefix, "/")
	var refs []string
	switch len(words) {
	case 1:
		refs, err = c.completePod(ctx)
	case 2:
		refs, err = c.completeIn(ctx, words[0])
	case 3:
		refs, err = c.completeContainer(ctx, words[0], words[1])
	}
	var fit []string
	for _, ref := range refs {
		if strings.HasPrefix(ref, prefix) {
			fit = append(fit, ref)
		}
	}
	return fit, err
}

// completePod asks for all namespaces first: that is one request.
func (c *client) completePod(ctx context.Context) ([]string, error) {
	pods, err := c.runningPods(ctx, meta.NamespaceAll)
	if provider.KindOf(err) == provider.Unauthorized {
		pods, err = c.runningPods(ctx, c.namespace)
	}
	var refs []string
	for _, p := range pods {
		if p.Namespace == c.namespace {
			refs = append(refs, p.Name)
		} else {
			refs = append(refs, p.Namespace+"/"+p.Name)
		}
	}
	return refs, err
}

func (c *client) completeIn(ctx context.Context, namespace string) ([]string, error) {
	from := namespace
	if from == "" { // as in /pod/container
		from = c.namespace
	}
	pods, err := c.runningPods(ctx, from)
	var refs []string
	for _, p := range pods {
		refs = append(refs, namespace+"/"+p.Name)
	}
	return refs, err
}

func (c *client) completeContainer(ctx context.Context, namespace, name string) ([]string, error) {
	r := reference{namespace: namespace, pod: name}
	if namespace == "" {
		r.namespace = c.namespace
	}
	pod, err := c.pod(ctx, r)
	if err != nil {
		return nil, err
	}
	var refs []string
	_, names := containerState(pod, "")
	for _, container := range names {
		refs = append(refs, namespace+"/"+name+"/"+container)
	}
	return refs, nil
}

func (c *client) runningPods(ctx context.Context, namespace string) ([]core.Pod, error) {
	list, err := c.pods.list(ctx, namespace, meta.ListOptions{Limit: mostOffered, FieldSelector: "status.phase=Running"})
	if err != nil {
		return nil, apiError("list pods", err)
	}
	return list.Items, nil
}
