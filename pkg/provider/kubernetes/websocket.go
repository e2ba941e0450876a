package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	gorilla "github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
)

// Channels of the exec protocol, and the one that closes another (KEP-4006).
const (
	channelStdin = iota
	channelStdout
	channelStderr
	channelStatus
	channelClose = 255
)

// Heartbeats are client-go's.
const (
	pingEvery   = 5 * time.Second
	pongTimeout = 60 * time.Second
)

const websocketVersion = "v5.channel.k8s.io"

func openWebSocket(ctx context.Context, config *rest.Config, where *url.URL, stdin bool) (*streams, error) {
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return nil, err
	}
	// Only version 5 can end the input.
	conn, err := websocket.Negotiate(transport, holder, req, websocketVersion)
	var refused *httpstream.UpgradeFailureError
	if errors.As(err, &refused) && isStatus(refused.Cause) {
		return nil, refused.Cause
	}
	if refused != nil {
		return nil, &upgradeError{refused.Cause}
	}
	if err != nil {
		return nil, err
	}
	w := &webSocket{conn: conn, done: make(chan struct{})}
	var pipes [3]*io.PipeReader
	for i := range pipes {
		pipes[i], w.outputs[i] = io.Pipe()
	}
	go w.read()
	go w.ping()
	out := &streams{stdout: pipes[0], stderr: pipes[1], status: pipes[2], close: w.close}
	if stdin {
		out.stdin = webSocketInput{w}
	}
	return out, nil
}

type webSocket struct {
	conn    *gorilla.Conn
	outputs [3]*io.PipeWriter // stdout, stderr, status
	write   sync.Mutex
	once    sync.Once
	done    chan struct{}
}

func (w *webSocket) close() {
	w.once.Do(func() {
		close(w.done)
		_ = w.conn.Close()
		for _, out := range w.outputs {
			_ = out.CloseWithError(io.ErrUnexpectedEOF)
		}
	})
}

// read hands messages to their channels until the connection ends.
func (w *webSocket) read() {
	err := w.readAll()
	if gorilla.IsCloseError(err, gorilla.CloseNormalClosure) {
		err = io.EOF
	}
	for _, out := range w.outputs {
		_ = out.CloseWithError(err)
	}
}

func (w *webSocket) readAll() error {
	w.conn.SetPongHandler(func(string) error { return w.conn.SetReadDeadline(time.Now().Add(pongTimeout)) })
	buf := make([]byte, 2*pieceSize)
	for {
		// Set anew before each message: a slow reader of output is no silence.
		if err := w.conn.SetReadDeadline(time.Now().Add(pongTimeout)); err != nil {
			return err
		}
		_, message, err := w.conn.NextReader()
		if err != nil {
			return err
		}
		var channel [1]byte
		if _, err := io.ReadFull(message, channel[:]); err != nil {
			return fmt.Errorf("empty message: %w", err)
		}
		if channel[0] == channelClose {
			if _, err := io.ReadFull(message, channel[:]); err == nil {
				_ = w.endOutput(channel[0])
			}
			continue
		}
		if channel[0] < channelStdout || channel[0] > channelStatus {
			return fmt.Errorf("message on channel %d", channel[0])
		}
		// A reader that has gone must not stop the other channels.
		if _, err := io.CopyBuffer(w.outputs[channel[0]-channelStdout], message, buf); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			return err
		}
	}
}

func (w *webSocket) endOutput(channel byte) error {
	if channel < channelStdout || channel > channelStatus {
		return nil
	}
	return w.outputs[channel-channelStdout].Close()
}

func (w *webSocket) ping() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-tick.C:
			if w.conn.WriteControl(gorilla.PingMessage, nil, time.Now().Add(pingEvery)) != nil {
				return
			}
		}
	}
}

func (w *webSocket) send(channel byte, p []byte) error {
	w.write.Lock()
	defer w.write.Unlock()
	message, err := w.conn.NextWriter(gorilla.BinaryMessage)
	if err != nil {
		return err
	}
	if _, err := message.Write([]byte{channel}); err != nil {
		return err
	}
	if _, err := message.Write(p); err != nil {
		return err
	}
	return message.Close()
}

// webSocketInput is the command's standard input.
type webSocketInput struct{ w *webSocket }

func (i webSocketInput) Write(p []byte) (int, error) {
	if err := i.w.send(channelStdin, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (i webSocketInput) Close() error { return i.w.send(channelClose, []byte{channelStdin}) }
