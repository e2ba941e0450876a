package transfer

import (
	"sync/atomic"
	"time"
)

// link finds out whether compression pays on the base64 route: on a fast way to
// the sandbox it takes longer than sending what it saves.
type link struct {
	rate atomic.Int64 // as measured; 0 until known
}

// slowLink is where compression begins to pay, with what the sandbox does with a
// chunk counted in. Compressing a megabyte of source text was seen to take 4 ms
// here and 6 ms to expand in the sandbox by gzip, the sandbox's gzip to take 16,
// and what it saves is about a megabyte of text.
const slowLink = 15e6

// linkSample is how much has to be sent without compression to judge the link.
const linkSample = 2 << 20

// compress says whether to. Until the link is known nothing is compressed.
func (l *link) compress() bool {
	rate := l.rate.Load()
	return rate > 0 && rate < slowLink
}

// measure takes note of how long so many raw bytes took.
func (l *link) measure(raw int64, d time.Duration) {
	if raw < linkSample || l.rate.Load() != 0 {
		return
	}
	d = max(d, time.Millisecond)
	l.rate.Store(max(1, int64(float64(raw)*4/3/d.Seconds())))
}
