package kubernetes

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/sbsync/sbsync/pkg/provider"
)

// reference is what stands between the colons of a target.
type reference struct {
	namespace, pod, container string
	selector                  string // in place of pod
}

// parseReference reads [namespace/]pod[/container]. Of two words the first is
// the namespace, as in namespace/pod everywhere else; a container in the
// default namespace is written /pod/container.
func parseReference(ref string) (reference, error) {
	words := strings.Split(ref, "/")
	var r reference
	switch len(words) {
	case 1:
		r.pod = words[0]
	case 2:
		r.namespace, r.pod = words[0], words[1]
	case 3:
		r.namespace, r.pod, r.container = words[0], words[1], words[2]
		if r.container == "" {
			return r, referenceError(ref, "it has no container after the last slash")
		}
	default:
		return r, referenceError(ref, "it has more than three parts")
	}
	if r.pod == "" {
		return r, referenceError(ref, "it has no pod")
	}
	if strings.ContainsAny(r.pod, "=!, ()") {
		if _, err := labels.Parse(r.pod); err != nil {
			return r, referenceError(ref, err.Error())
		}
		r.selector, r.pod = r.pod, ""
	}
	return r, nil
}

func referenceError(ref, cause string) error {
	return &provider.Error{Kind: provider.Usage, Op: fmt.Sprintf("pod %q", ref), Err: fmt.Errorf("%s", cause),
		Hint: "write [namespace/]pod, namespace/pod/container, or /pod/container for the default namespace; a label selector may take the pod's place"}
}

// String is the pod as a person would name it.
func (r reference) String() string {
	name := r.pod
	if name == "" {
		name = r.selector
	}
	return r.namespace + "/" + name
}
