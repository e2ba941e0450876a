package cmd

import (
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/daytona"
	"github.com/sbsync/sbsync/pkg/provider/docker"
	"github.com/sbsync/sbsync/pkg/provider/kubernetes"
	"github.com/sbsync/sbsync/pkg/provider/local"
	"github.com/sbsync/sbsync/pkg/provider/ssh"
)

// drivers returns the providers that this program knows. It is the one place
// that names them.
func drivers() *provider.Registry {
	return provider.NewRegistry(
		daytona.Driver{},
		docker.Driver{},
		kubernetes.Driver{},
		local.Driver{},
		ssh.Driver{},
	)
}

// driverWords returns the names and aliases of the providers.
func driverWords(r *provider.Registry) []string {
	var words []string
	for _, d := range r.Drivers() {
		words = append(append(words, d.Name()), d.Aliases()...)
	}
	return words
}
