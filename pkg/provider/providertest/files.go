package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sbsync/sbsync/pkg/provider"
)

// PutFiles stores files as e2b's envd does: parents get 0755, a new file 0644;
// an existing file is written in place, so that it keeps its mode and its
// inode, links are followed, and a failure leaves a part. The daemon asks for
// no permission.
func (f *Fake) PutFiles(ctx context.Context, files []provider.PutFile) error {
	if !f.opts.Files {
		return provider.ErrNotImplemented
	}
	_, err := f.call(ctx, nil, func() (provider.Result, error) {
		var failed []error
		for _, file := range files {
			if err := ctx.Err(); err != nil {
				return provider.Result{}, err
			}
			if err := f.put(file); err != nil {
				failed = append(failed, &provider.FileError{Path: file.Path, Err: err})
			}
		}
		return provider.Result{}, errors.Join(failed...)
	})
	return err
}

func (f *Fake) put(file provider.PutFile) error {
	r, err := file.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if f.opts.LosePut > 0 && file.Size > f.opts.LosePut {
		f.fire("lose_put")
		_, err := io.Copy(io.Discard, r)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file.Path), 0o755); err != nil {
		return fileError(err)
	}
	w, err := os.OpenFile(file.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fileError(err)
	}
	n, err := io.Copy(w, r)
	err = errors.Join(err, w.Close(), f.own(file.Path))
	if err == nil && file.Size >= 0 && n != file.Size {
		return provider.New(provider.Integrity, fmt.Sprintf("got %d of %d bytes", n, file.Size), "")
	}
	return fileError(err)
}

// GetFile reads a file from offset on.
func (f *Fake) GetFile(ctx context.Context, path string, offset int64, w io.Writer) error {
	if !f.opts.Files {
		return provider.ErrNotImplemented
	}
	_, err := f.call(ctx, nil, func() (provider.Result, error) {
		r, err := os.Open(path)
		if err != nil {
			return provider.Result{}, fileError(err)
		}
		defer r.Close()
		if info, err := r.Stat(); err != nil || !info.Mode().IsRegular() {
			return provider.Result{}, provider.New(provider.Other, fmt.Sprintf("get %q: not a file", path), "")
		}
		if _, err := r.Seek(offset, io.SeekStart); err != nil {
			return provider.Result{}, fileError(err)
		}
		_, err = io.Copy(w, readerUntil{ctx, r})
		return provider.Result{}, err
	})
	return err
}

// readerUntil reads until ctx ends.
type readerUntil struct {
	ctx context.Context
	r   io.Reader
}

func (r readerUntil) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// fileError gives an error of the file system the kind that a driver would.
func fileError(err error) error {
	kind := provider.Other
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		kind = provider.NotFound
	case errors.Is(err, syscall.ENOSPC):
		kind = provider.NoSpace
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		kind = provider.ReadOnly
	}
	return &provider.Error{Kind: kind, Err: err}
}
