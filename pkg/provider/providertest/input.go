package providertest

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// errBroken is what the reader of a broken input gets.
var errBroken = errors.New("connection lost")

// inputPump stands between the caller's stdin and the command, and can end the
// command's input at any time, even while the caller's Read blocks.
type inputPump struct {
	from     io.Reader
	r        *io.PipeReader
	w        *io.PipeWriter
	keepOpen bool // the command never sees the end
	hesitate bool // give the command time to close its output
	over     chan struct{}
	ended    atomic.Bool // the caller's input was passed on to its end

	cut      *cutter // nil if none
	cutError error   // what the cut looks like; nil is end-of-file
	onCut    func()
}

func newInputPump(from io.Reader) *inputPump {
	p := &inputPump{from: from, over: make(chan struct{})}
	p.r, p.w = io.Pipe()
	return p
}

// run copies until the caller's input ends. After a cut it goes on reading, so
// that the caller finds nothing wrong.
func (p *inputPump) run() {
	buf := make([]byte, 64<<10)
	for {
		n, err := p.from.Read(buf)
		if !p.forward(buf[:n]) {
			return
		}
		if p.hesitate && n > 0 {
			p.hesitate = false
			select {
			case <-p.over:
			case <-time.After(quietTime):
			}
		}
		if err == io.EOF {
			p.ended.Store(true)
			if p.keepOpen {
				<-p.over
			}
			p.w.Close()
			return
		}
		if err != nil {
			p.w.CloseWithError(err)
			return
		}
	}
}

// forward passes b on, up to the cut. It is false if the command is over.
func (p *inputPump) forward(b []byte) bool {
	if p.cut == nil {
		_, err := p.w.Write(b)
		return err == nil
	}
	if !p.cut.done {
		_, err := p.w.Write(b[:p.cut.pass(b)])
		if err != nil {
			return false
		}
		if p.cut.done {
			p.onCut()
			p.w.CloseWithError(p.cutError)
		}
	}
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// stop ends the command's input now. It is false if it has ended already.
func (p *inputPump) stop() bool {
	p.w.Close()
	return !p.ended.Load()
}

// end frees what waits for the command.
func (p *inputPump) end() {
	close(p.over)
	p.r.Close()
}
