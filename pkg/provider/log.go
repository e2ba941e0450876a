package provider

import (
	"context"
	"io"
	"time"
)

// Event tells of one call that ended. It has nothing of the command but its
// label: arguments, environment and input may hold secrets.
type Event struct {
	Verb     string // "exec", "stream", "put files", "get file", "sync in", "sync out"
	Label    string // of the command; empty for other verbs
	Duration time.Duration
	ExitCode int   // of a command that ended
	BytesIn  int64 // to the sandbox
	BytesOut int64 // from the sandbox, standard error included
	Err      error
}

// Log returns sb with on called after each call, from the goroutine that made
// it, so on must be safe for concurrent use. Inside [Retry] it sees every
// attempt.
func Log(sb Sandbox, on func(Event)) Sandbox {
	return &logged{passthrough: passTo(sb), on: on}
}

type logged struct {
	passthrough
	on func(Event)
}

// call makes one call and tells of it.
func (l *logged) call(e Event, run func(t *traffic) (exitCode int, err error)) {
	var t traffic
	began := time.Now()
	e.ExitCode, e.Err = run(&t)
	e.Duration = time.Since(began)
	e.BytesIn, e.BytesOut = t.in.Load(), t.out.Load()
	l.on(e)
}

func (l *logged) command(verb string, cmd Command, run func(Command) (Result, error)) (res Result, err error) {
	l.call(Event{Verb: verb, Label: cmd.Label}, func(t *traffic) (int, error) {
		res, err = run(t.command(cmd))
		t.result(res)
		return res.ExitCode, err
	})
	return res, err
}

func (l *logged) Exec(ctx context.Context, cmd Command) (Result, error) {
	return l.command("exec", cmd, func(c Command) (Result, error) { return l.passthrough.Exec(ctx, c) })
}

func (l *logged) Stream(ctx context.Context, cmd Command) (Result, error) {
	return l.command("stream", cmd, func(c Command) (Result, error) { return l.passthrough.Stream(ctx, c) })
}

func (l *logged) PutFiles(ctx context.Context, files []PutFile) (err error) {
	l.call(Event{Verb: "put files"}, func(t *traffic) (int, error) {
		err = l.passthrough.PutFiles(ctx, t.files(files))
		return 0, err
	})
	return err
}

func (l *logged) GetFile(ctx context.Context, path string, offset int64, w io.Writer) (err error) {
	l.call(Event{Verb: "get file"}, func(t *traffic) (int, error) {
		err = l.passthrough.GetFile(ctx, path, offset, t.writer(w))
		return 0, err
	})
	return err
}

func (l *logged) SyncIn(ctx context.Context, ops []SyncOperation) (res []SyncResult, err error) {
	l.call(Event{Verb: "sync in"}, func(*traffic) (int, error) {
		res, err = l.passthrough.SyncIn(ctx, ops)
		return 0, err
	})
	return res, err
}

func (l *logged) SyncOut(ctx context.Context, ops []SyncOperation) (res []SyncResult, err error) {
	l.call(Event{Verb: "sync out"}, func(*traffic) (int, error) {
		res, err = l.passthrough.SyncOut(ctx, ops)
		return 0, err
	})
	return res, err
}
