//go:build linux

package daytonatest

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// toolbox is the daemon.
func (s *Server) toolbox(w http.ResponseWriter, r *http.Request, what string) {
	switch what {
	case "POST /process/execute":
		s.execute(w, r)
	case "POST /files/bulk-upload":
		s.bulkUpload(w, r)
	case "POST /files/upload":
		s.upload(w, r)
	case "GET /files/download":
		s.download(w, r)
	default:
		answer(w, http.StatusNotFound, map[string]any{"error": "404 page not found"})
	}
}

// execute runs a command whose client may go away: it runs on. Up to 0.155 the
// text is split into words, from 0.156 on a shell reads it from its input.
func (s *Server) execute(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Command string  `json:"command"`
		Cwd     *string `json:"cwd"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || strings.TrimSpace(req.Command) == "" {
		answer(w, http.StatusBadRequest, map[string]any{"message": "command cannot be empty"})
		return
	}
	cmd := exec.Command("sh")
	if s.opts.Daemon < 156 {
		words := splitWords(req.Command)
		cmd = exec.Command(words[0], words[1:]...)
	} else {
		cmd.Stdin = strings.NewReader(req.Command)
	}
	if s.opts.Path != "" {
		cmd.Env = append(os.Environ(), "PATH="+s.opts.Path)
	}
	if req.Cwd != nil {
		cmd.Dir = *req.Cwd
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, code := s.run(cmd)
	if s.opts.MaxOutput > 0 && len(out) > s.opts.MaxOutput {
		out = out[:s.opts.MaxOutput]
	}
	answer(w, http.StatusOK, map[string]any{"exitCode": code, "result": out}) // as UTF-8
}

func (s *Server) run(cmd *exec.Cmd) (string, int) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	s.mu.Lock()
	err := cmd.Start()
	s.running[cmd] = err == nil
	s.mu.Unlock()
	if err != nil {
		return err.Error(), -1
	}
	cmd.Wait()
	s.mu.Lock()
	delete(s.running, cmd)
	s.mu.Unlock()
	return out.String(), cmd.ProcessState.ExitCode() // -1 for one that was killed
}

// killAll ends what still runs at the end of a test.
func (s *Server) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cmd, started := range s.running {
		if started {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
}

// splitWords splits a command line as the daemon did that has no shell: at
// blanks, with single and double quotes, and no escapes.
func splitWords(line string) []string {
	var words []string
	var word strings.Builder
	quote, within := rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, within = c, true
		case c == ' ':
			if within {
				words = append(words, word.String())
			}
			word.Reset()
			within = false
		default:
			word.WriteRune(c)
			within = true
		}
	}
	if within {
		words = append(words, word.String())
	}
	return words
}
