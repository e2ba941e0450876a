//go:build unix && !linux

package local

// maxArgs leaves half of Darwin's ARG_MAX (1 MiB) to the environment.
const maxArgs = 512 << 10
