//go:build linux

package daytonatest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// bulkUpload writes each file in place as its part comes. Errors of files come as
// 400, with a list; the other files are written.
func (s *Server) bulkUpload(w http.ResponseWriter, r *http.Request) {
	reader, err := r.MultipartReader()
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"errors": []string{"invalid multipart form"}})
		return
	}
	paths := map[string]string{}
	var failed []string
	var stored []map[string]any
	for {
		part, err := reader.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			s.brokeOff()
			failed = append(failed, "reading part: "+err.Error())
			break
		}
		id, kind, _ := strings.Cut(part.FormName(), "].")
		if kind == "path" {
			text, _ := io.ReadAll(part)
			if paths[id] = string(text); s.opts.Daemon >= 175 {
				paths[id] = strings.TrimSpace(paths[id])
			}
			continue
		}
		path := paths[id]
		n, err := store(path, part)
		if err == io.ErrUnexpectedEOF {
			s.brokeOff()
		}
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		stored = append(stored, map[string]any{"path": path, "bytes": n})
	}
	io.Copy(io.Discard, r.Body)
	reply := map[string]any{}
	if s.opts.Daemon >= 176 {
		reply["files"] = stored
	}
	if len(failed) > 0 {
		reply["errors"] = failed
		answer(w, http.StatusBadRequest, reply)
		return
	}
	answer(w, http.StatusOK, reply)
}

func (s *Server) brokeOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken++
}

func store(path string, r io.Reader) (int64, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return 0, fmt.Errorf("mkdir: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return 0, fmt.Errorf("create: %w", err)
	}
	n, err := io.Copy(f, r)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return n, err
}

// upload is what the SDK's UploadFile asks for: the file is spooled first.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	file, _, err := r.FormFile("file")
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"message": err.Error()})
		return
	}
	defer file.Close()
	if _, err := store(r.URL.Query().Get("path"), file); err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"message": err.Error()})
		return
	}
	answer(w, http.StatusOK, map[string]any{})
}

// download knows ranges. Errors have empty bodies from 0.190 on.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Query().Get("path")
	fail := func(status int, text string) {
		if s.opts.Daemon >= 190 {
			w.WriteHeader(status)
			return
		}
		answer(w, status, map[string]any{"message": text})
	}
	info, err := os.Stat(path)
	switch {
	case !utf8.ValidString(path):
		fail(http.StatusBadRequest, "invalid path")
		return
	case os.IsNotExist(err):
		fail(http.StatusNotFound, "file not found: "+path)
		return
	case err != nil:
		fail(http.StatusBadRequest, err.Error())
		return
	case info.IsDir():
		fail(http.StatusBadRequest, path+" is a directory")
		return
	}
	f, err := os.Open(path)
	if err != nil {
		fail(http.StatusForbidden, err.Error())
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", info.ModTime(), f)
}
