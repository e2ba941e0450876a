// Package remote is what drivers have in common that run commands elsewhere and
// copy their streams.
package remote
