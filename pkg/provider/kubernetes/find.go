package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sbsync/sbsync/pkg/provider"
)

// defaultContainer is the annotation by which kubectl chooses.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// find looks for the pod and chooses its container.
func (c *client) find(ctx context.Context, r reference) (reference, error) {
	pod, err := c.pod(ctx, r)
	if err != nil {
		return r, err
	}
	r.pod, r.selector = pod.Name, ""
	if r.container == "" {
		r.container = pod.Annotations[defaultContainer]
	}
	if r.container == "" && len(pod.Spec.Containers) > 0 {
		r.container = pod.Spec.Containers[0].Name
	}
	return r, usable(pod, r)
}

func (c *client) pod(ctx context.Context, r reference) (*core.Pod, error) {
	if r.selector != "" {
		return c.selected(ctx, r)
	}
	pod, err := c.pods.get(ctx, r.namespace, r.pod)
	if apierrors.IsNotFound(err) {
		return nil, &provider.Error{Kind: provider.NotFound, Op: "pod " + r.String(), Err: fmt.Errorf("there is no such pod"), Hint: c.near(ctx, r)}
	}
	if err != nil {
		return nil, apiError("get pod "+r.String(), err)
	}
	return pod, nil
}

// near suggests what a pod's name was meant to be. Who may not list pods gets
// a general hint.
func (c *client) near(ctx context.Context, r reference) string {
	list, err := c.pods.list(ctx, r.namespace, meta.ListOptions{Limit: 500})
	if err != nil || len(list.Items) == 0 {
		return fmt.Sprintf("see \"kubectl get pods -n %s\"", r.namespace)
	}
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	if near := provider.Suggest(r.pod, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("namespace %s has %s", r.namespace, shortList(names))
}

// selected returns the only running pod that matches.
func (c *client) selected(ctx context.Context, r reference) (*core.Pod, error) {
	list, err := c.pods.list(ctx, r.namespace, meta.ListOptions{LabelSelector: r.selector})
	if err != nil {
		return nil, apiError("list pods in "+r.namespace, err)
	}
	var running []*core.Pod
	var names []string
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == core.PodRunning && p.DeletionTimestamp == nil {
			running, names = append(running, p), append(names, p.Name)
		}
	}
	switch len(running) {
	case 1:
		return running[0], nil
	case 0:
		return nil, &provider.Error{Kind: provider.NotFound, Op: "pod " + r.String(),
			Err:  fmt.Errorf("no running pod matches (%d that are not running)", len(list.Items)),
			Hint: fmt.Sprintf("see \"kubectl get pods -n %s -l '%s'\"", r.namespace, r.selector)}
	}
	return nil, &provider.Error{Kind: provider.Usage, Op: "pod " + r.String(),
		Err:  fmt.Errorf("%d running pods match: %s", len(names), shortList(names)),
		Hint: "name one of them, or narrow the selector"}
}

// usable says why a container can't run commands, if it can't.
func usable(pod *core.Pod, r reference) error {
	op := "pod " + r.String()
	if pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed {
		return &provider.Error{Kind: provider.NotFound, Op: op, Err: fmt.Errorf("it has ended (%s)", strings.ToLower(string(pod.Status.Phase))),
			Hint: "commands run only in running containers"}
	}
	state, names := containerState(pod, r.container)
	if !slices.Contains(names, r.container) {
		return &provider.Error{Kind: provider.NotFound, Op: op, Err: fmt.Errorf("it has no container %q", r.container),
			Hint: "it has " + shortList(names)}
	}
	if state.Running != nil {
		return nil
	}
	why := "waiting to start"
	switch {
	case state.Waiting != nil && state.Waiting.Reason != "":
		why = "waiting: " + state.Waiting.Reason
	case state.Terminated != nil:
		why = fmt.Sprintf("ended with exit code %d", state.Terminated.ExitCode)
	}
	return &provider.Error{Kind: provider.NotFound, Op: op, Err: fmt.Errorf("container %q is not running (%s)", r.container, why),
		Hint: fmt.Sprintf("see \"kubectl describe pod -n %s %s\"", pod.Namespace, pod.Name)}
}

// containerState returns the state of one container and the names of all.
func containerState(pod *core.Pod, name string) (state core.ContainerState, names []string) {
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	for _, list := range [][]core.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for _, s := range list {
			if s.Name == name {
				state = s.State
			}
		}
	}
	return state, names
}

// shortList joins names, ten at most.
func shortList(names []string) string {
	const most = 10
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
