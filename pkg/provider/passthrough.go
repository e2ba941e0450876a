package provider

import (
	"context"
	"io"
)

// passthrough is what the wrappers are made of: a sandbox that hands every
// verb to another one. A wrapper embeds it and overrides what it changes.
//
// It has all optional verbs; its capabilities tell which of them are real, so
// that [StreamerOf] and the like see through any number of wrappers. A verb
// that is not answers [ErrNotImplemented].
type passthrough struct {
	inner    Sandbox
	caps     Capabilities
	streamer Streamer
	filer    Filer
	syncer   Syncer
}

func passTo(inner Sandbox) passthrough {
	p := passthrough{inner: inner, caps: inner.Capabilities()}
	p.streamer, p.caps.Stream = StreamerOf(inner)
	p.filer, p.caps.Files = FilerOf(inner)
	p.syncer, p.caps.Sync = SyncerOf(inner)
	return p
}

func (p *passthrough) Capabilities() Capabilities { return p.caps }

func (p *passthrough) Close() error { return p.inner.Close() }

func (p *passthrough) Exec(ctx context.Context, cmd Command) (Result, error) {
	return p.inner.Exec(ctx, cmd)
}

func (p *passthrough) Stream(ctx context.Context, cmd Command) (Result, error) {
	if !p.caps.Stream {
		return Result{}, ErrNotImplemented
	}
	return p.streamer.Stream(ctx, cmd)
}

func (p *passthrough) PutFiles(ctx context.Context, files []PutFile) error {
	if !p.caps.Files {
		return ErrNotImplemented
	}
	return p.filer.PutFiles(ctx, files)
}

func (p *passthrough) GetFile(ctx context.Context, path string, offset int64, w io.Writer) error {
	if !p.caps.Files {
		return ErrNotImplemented
	}
	return p.filer.GetFile(ctx, path, offset, w)
}

func (p *passthrough) SyncIn(ctx context.Context, ops []SyncOperation) ([]SyncResult, error) {
	if !p.caps.Sync {
		return nil, ErrNotImplemented
	}
	return p.syncer.SyncIn(ctx, ops)
}

func (p *passthrough) SyncOut(ctx context.Context, ops []SyncOperation) ([]SyncResult, error) {
	if !p.caps.Sync {
		return nil, ErrNotImplemented
	}
	return p.syncer.SyncOut(ctx, ops)
}

var (
	_ Streamer = (*passthrough)(nil)
	_ Filer    = (*passthrough)(nil)
	_ Syncer   = (*passthrough)(nil)
)
