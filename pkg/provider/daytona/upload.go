package daytona

import (
	"fmt"
	"io"
	"mime/multipart"
	"sync"

	"github.com/sbsync/sbsync/pkg/provider"
)

// upload writes the body of a bulk upload while it is sent. Whatever happens to
// a file, the body ends as a valid one: the daemon must not see it cut.
type upload struct {
	files []provider.PutFile
	pr    *io.PipeReader
	pw    *io.PipeWriter
	form  *multipart.Writer
	begin sync.Once
	done  chan struct{}

	mu    sync.Mutex
	cause error            // why it was stopped
	err   error            // of a file
	bytes map[string]int64 // what was sent of each
}

func newUpload(files []provider.PutFile) *upload {
	u := &upload{files: files, done: make(chan struct{}), bytes: make(map[string]int64, len(files))}
	u.pr, u.pw = io.Pipe()
	u.form = multipart.NewWriter(u.pw)
	return u
}

// body starts the writer.
func (u *upload) body() io.Reader {
	u.begin.Do(func() {
		go func() {
			defer close(u.done)
			u.pw.CloseWithError(u.write())
		}()
	})
	return u.pr
}

// close ends the writer and waits for it.
func (u *upload) close() {
	u.pr.Close()
	u.begin.Do(func() { close(u.done) })
	<-u.done
}

// stop brings the body to an end before all files are in it.
func (u *upload) stop(cause error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cause = cause
}

func (u *upload) stopped() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cause
}

// failure is the error of the file that could not be read.
func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// sent is how many bytes of a file were sent.
func (u *upload) sent(path string) (int64, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, ok := u.bytes[path]
	return n, ok
}

func (u *upload) write() error {
	buf := make([]byte, bufferSize)
	for i, f := range u.files {
		if u.stopped() != nil {
			break
		}
		if err := u.file(i, f, buf); err != nil {
			return err
		}
		if u.failure() != nil {
			break
		}
	}
	return u.form.Close()
}

// file writes a file's two parts, the path before the content: a daemon that
// has no path for content drops it. The error is the connection's.
func (u *upload) file(i int, f provider.PutFile, buf []byte) error {
	r, err := f.Open()
	if err != nil {
		u.fail(f, err)
		return nil
	}
	defer r.Close()
	if err := u.form.WriteField(fmt.Sprintf("files[%d].path", i), f.Path); err != nil {
		return err
	}
	// The file's name is only for show: the path is what counts.
	part, err := u.form.CreateFormFile(fmt.Sprintf("files[%d].file", i), "file")
	if err != nil {
		return err
	}
	var sent int64
	for {
		if u.stopped() != nil {
			return nil
		}
		n, rerr := r.Read(buf)
		if n > 0 {
			if _, err := part.Write(buf[:n]); err != nil {
				return err
			}
			sent += int64(n)
		}
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			u.fail(f, rerr)
			return nil
		}
	}
	if f.Size >= 0 && sent != f.Size {
		u.fail(f, &provider.Error{Kind: provider.Integrity, Err: fmt.Errorf("its source has %d bytes, not %d", sent, f.Size), Final: true})
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes[f.Path] = sent
	return nil
}

func (u *upload) fail(f provider.PutFile, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = &provider.FileError{Path: f.Path, Err: err}
}
