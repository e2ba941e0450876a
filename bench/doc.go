// Package bench holds sbsync's benchmarks: each measures sbsync and what it is
// compared with in turn, several times in the same run, and reports medians and
// their ratio.
//
//	go test -bench . -benchtime 1x ./bench            # all, in a few minutes
//	go test -bench Stream/gosrc -runs 9 ./bench
//
// They need a POSIX machine with tar. Trees are made below -dir, by default a
// memory file system if there is one, so that the disk does not hide the rest.
package bench
