package kubernetes

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // exec plugins and the providers that kubeconfigs name
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/sbsync/sbsync/pkg/provider"
)

// settings are the provider's keys in sbsync's configuration.
type settings struct {
	context, kubeconfig, protocol string
}

var settingKeys = []string{"context", "exec_protocol", "kubeconfig"}

// Values of exec_protocol.
const (
	protocolAuto      = "auto"
	protocolSPDY      = "spdy"
	protocolWebSocket = "websocket"
)

func readSettings(cfg provider.Config) (settings, error) {
	s := settings{protocol: protocolAuto}
	for key, value := range cfg {
		ok := false
		switch key {
		case "context":
			s.context, ok = value.(string)
		case "kubeconfig":
			s.kubeconfig, ok = value.(string)
		case "exec_protocol":
			s.protocol, ok = value.(string)
			ok = ok && (s.protocol == protocolAuto || s.protocol == protocolSPDY || s.protocol == protocolWebSocket)
		default:
			hint := "its keys are " + strings.Join(settingKeys, ", ")
			if near := provider.Suggest(key, settingKeys); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return s, &provider.Error{Kind: provider.Usage, Op: "open kubernetes", Err: fmt.Errorf("unknown key %q", key), Hint: hint}
		}
		if !ok {
			return s, &provider.Error{Kind: provider.Usage, Op: "open kubernetes", Err: fmt.Errorf("key %q has the value %v", key, value),
				Hint: "context and kubeconfig are strings, exec_protocol is auto, spdy or websocket"}
		}
	}
	return s, nil
}

// client is a connection to one cluster.
type client struct {
	pods      podClient
	config    *rest.Config
	namespace string // of the context
}

// connect reads the configuration; it sends nothing. Without any kubeconfig
// clientcmd takes the pod's own service account, if there is one.
func connect(set settings) (*client, error) {
	quiet()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = set.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: set.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, &provider.Error{Kind: provider.Usage, Op: "read kubeconfig", Err: err,
			Hint: "see \"kubectl config get-contexts\"; KUBECONFIG or the keys kubeconfig and context choose another"}
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, &provider.Error{Kind: provider.Usage, Op: "read kubeconfig", Err: err}
	}
	// Chunks and looks at pods are no reason to wait for client-go's default of 5 a second.
	config.QPS, config.Burst = 50, 100
	pods, err := newPodClient(config)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Usage, Op: "read kubeconfig", Err: err}
	}
	return &client{pods: pods, config: config, namespace: namespace}, nil
}

// quiet keeps what Kubernetes' libraries log out of the terminal: what matters
// comes back as an error.
var quiet = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })
