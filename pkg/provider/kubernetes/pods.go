package kubernetes

import (
	"context"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// podClient speaks to the API server about pods alone: client-go's clientset knows
// every kind of object there is, which takes 50 MB of program and 20 MB of
// memory.
type podClient struct{ rest.Interface }

var (
	scheme     = runtime.NewScheme()
	parameters = runtime.NewParameterCodec(scheme)
)

func init() {
	if err := core.AddToScheme(scheme); err != nil {
		panic(err) // two types of one name, which cannot be
	}
}

func newPodClient(config *rest.Config) (podClient, error) {
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/api", &core.SchemeGroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(c)
	return podClient{client}, err
}

func (p podClient) get(ctx context.Context, namespace, name string) (*core.Pod, error) {
	pod := &core.Pod{}
	err := p.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
	return pod, err
}

func (p podClient) list(ctx context.Context, namespace string, options meta.ListOptions) (*core.PodList, error) {
	list := &core.PodList{}
	err := p.Get().Namespace(namespace).Resource("pods").VersionedParams(&options, parameters).Do(ctx).Into(list)
	return list, err
}
