package daytona

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sbsync/sbsync/pkg/provider"
)

// PutFiles sends all files in one request. The daemon writes each in place; modes
// and times are its own.
func (s *sandbox) PutFiles(ctx context.Context, files []provider.PutFile) error {
	if err := ctx.Err(); err != nil || len(files) == 0 {
		return err
	}
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return &provider.FileError{Path: f.Path, Err: err}
		}
	}
	up := newUpload(files)
	// A daemon up to 0.174 goes on for ever, at full speed, with a request that
	// breaks off. So the request has a context of its own: when ctx ends, the
	// body is brought to a proper end first.
	reqCtx, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	stop := context.AfterFunc(ctx, func() {
		up.stop(ctx.Err())
		time.AfterFunc(endTime, abort)
	})
	defer stop()
	req, err := s.request(reqCtx, http.MethodPost, "/files/bulk-upload", nil, up.body())
	if err != nil {
		up.close()
		return err
	}
	req.Header.Set("Content-Type", up.form.FormDataContentType())
	res, err := s.http.Do(req)
	if err == nil {
		err = s.uploaded(res, files, up)
		res.Body.Close()
	} else {
		err = s.lost(reqCtx, "upload", err)
	}
	up.close()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case up.failure() != nil:
		return up.failure()
	}
	return err
}

// checkPath refuses a path that the daemon would take for another: it trims
// them silently from 0.175 on.
func checkPath(path string) error {
	switch {
	case strings.TrimSpace(path) != path:
		return provider.New(provider.Usage, "the toolbox drops blanks at the ends of a path", "use the base64 route")
	case strings.IndexByte(path, 0) >= 0:
		return provider.New(provider.Usage, "a path cannot have a NUL byte", "")
	}
	return nil
}

// bulkReply is the daemon's answer. Files comes from 0.176 on.
type bulkReply struct {
	Errors []string `json:"errors"`
	Files  []struct {
		Path  string `json:"path"`
		Bytes int64  `json:"bytes"`
	} `json:"files"`
}

// uploaded judges the answer. A request that failed may have stored most files.
func (s *sandbox) uploaded(res *http.Response, files []provider.PutFile, up *upload) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return s.lost(res.Request.Context(), "upload", err)
	}
	var reply bulkReply
	parsed := json.Unmarshal(text, &reply) == nil
	if parsed && len(reply.Errors) > 0 {
		return s.fileErrors(reply.Errors, files)
	}
	if res.StatusCode != http.StatusOK {
		e := statusError(res.StatusCode, res.Header, s.secrets.redact(messageOf(text)))
		e.Op = "upload"
		return e
	}
	for _, stored := range reply.Files {
		if sent, ok := up.sent(stored.Path); ok && sent != stored.Bytes {
			return &provider.FileError{Path: stored.Path, Err: &provider.Error{Kind: provider.Integrity,
				Err: fmt.Errorf("%d of %d bytes were stored", stored.Bytes, sent)}}
		}
	}
	return nil
}

// fileErrors makes an error for each that the daemon lists. They begin with the
// path.
func (s *sandbox) fileErrors(texts []string, files []provider.PutFile) error {
	var all []error
	for _, text := range texts {
		path, reason := "", text
		for _, f := range files {
			if rest, ok := strings.CutPrefix(text, f.Path+": "); ok && len(f.Path) > len(path) {
				path, reason = f.Path, rest
			}
		}
		reason = s.secrets.redact(shorten(reason))
		err := named(&provider.Error{Op: "upload", Err: errors.New(reason)}, reason)
		if path == "" {
			all = append(all, err)
			continue
		}
		all = append(all, &provider.FileError{Path: path, Err: err})
	}
	return errors.Join(all...)
}

// GetFile sends the file's bytes from offset on to w.
func (s *sandbox) GetFile(ctx context.Context, path string, offset int64, w io.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !utf8.ValidString(path) {
		return &provider.FileError{Path: path, Err: provider.New(provider.Usage, "the toolbox cannot send a file whose name is not UTF-8", "use the base64 route")}
	}
	req, err := s.request(ctx, http.MethodGet, "/files/download", url.Values{"path": {path}}, nil)
	if err != nil {
		return err
	}
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	res, err := s.do(req, "download", http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable)
	if err != nil {
		if provider.KindOf(err) == provider.Unreachable {
			return err // says nothing of the file
		}
		return &provider.FileError{Path: path, Err: err}
	}
	defer res.Body.Close()
	skip := int64(0)
	switch {
	case res.StatusCode == http.StatusRequestedRangeNotSatisfiable && offset > 0:
		return nil // the file ends there
	case res.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return &provider.FileError{Path: path, Err: statusError(res.StatusCode, res.Header, s.answer(res))}
	case res.StatusCode == http.StatusOK:
		skip = offset // a daemon or proxy that knows no ranges
	}
	return s.receive(ctx, res, skip, w)
}

// receive copies a body, whose end the Content-Length must confirm: net/http sees
// to that. A body without one could be cut (daytonaio/daytona PR 4747).
func (s *sandbox) receive(ctx context.Context, res *http.Response, skip int64, w io.Writer) error {
	if res.ContentLength < 0 && len(res.TransferEncoding) == 0 && res.ProtoMajor < 2 {
		return &provider.Error{Kind: provider.Integrity, Op: "download", Err: errors.New("the answer does not say how long it is")}
	}
	if skip > 0 {
		if _, err := io.CopyN(io.Discard, res.Body, skip); err != nil && err != io.EOF {
			return s.lost(ctx, "download", err)
		}
	}
	buf := make([]byte, bufferSize)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return s.lost(ctx, "download", err)
		}
	}
}

var (
	_ provider.Filer   = (*sandbox)(nil)
	_ provider.Sandbox = (*sandbox)(nil)
)
