package provider

import (
	"context"
	"io"
	"sync/atomic"
)

// Counts is what went through a [Metered] sandbox.
type Counts struct {
	Execs    int64 // calls of Exec
	Streams  int64 // calls of Stream
	Requests int64 // calls of the other verbs
	BytesIn  int64 // stdin and files, to the sandbox
	BytesOut int64 // stdout, stderr and files, from the sandbox
}

// Calls returns the calls of all verbs: the round trips.
func (c Counts) Calls() int64 { return c.Execs + c.Streams + c.Requests }

// Metered is a sandbox whose calls are counted.
type Metered struct {
	passthrough
	execs, streams, requests atomic.Int64
	bytes                    traffic
}

// Meter returns sb with its calls counted. Inside [Retry] it counts every
// attempt, outside only what was asked for. Bytes that a [Syncer] moves are not
// seen.
func Meter(sb Sandbox) *Metered { return &Metered{passthrough: passTo(sb)} }

// Counts returns what was counted until now. It is safe for concurrent use.
func (m *Metered) Counts() Counts {
	return Counts{
		Execs: m.execs.Load(), Streams: m.streams.Load(), Requests: m.requests.Load(),
		BytesIn: m.bytes.in.Load(), BytesOut: m.bytes.out.Load(),
	}
}

// Exec counts and passes on.
func (m *Metered) Exec(ctx context.Context, cmd Command) (Result, error) {
	m.execs.Add(1)
	res, err := m.passthrough.Exec(ctx, m.bytes.command(cmd))
	m.bytes.result(res)
	return res, err
}

// Stream counts and passes on.
func (m *Metered) Stream(ctx context.Context, cmd Command) (Result, error) {
	m.streams.Add(1)
	res, err := m.passthrough.Stream(ctx, m.bytes.command(cmd))
	m.bytes.result(res)
	return res, err
}

// PutFiles counts and passes on.
func (m *Metered) PutFiles(ctx context.Context, files []PutFile) error {
	m.requests.Add(1)
	return m.passthrough.PutFiles(ctx, m.bytes.files(files))
}

// GetFile counts and passes on.
func (m *Metered) GetFile(ctx context.Context, path string, offset int64, w io.Writer) error {
	m.requests.Add(1)
	return m.passthrough.GetFile(ctx, path, offset, m.bytes.writer(w))
}

// SyncIn counts and passes on.
func (m *Metered) SyncIn(ctx context.Context, ops []SyncOperation) ([]SyncResult, error) {
	m.requests.Add(1)
	return m.passthrough.SyncIn(ctx, ops)
}

// SyncOut counts and passes on.
func (m *Metered) SyncOut(ctx context.Context, ops []SyncOperation) ([]SyncResult, error) {
	m.requests.Add(1)
	return m.passthrough.SyncOut(ctx, ops)
}
