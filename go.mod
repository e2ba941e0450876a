module github.com/sbsync/sbsync

go 1.26.0
