package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// outputSize is that of one read of the output.
const outputSize = 256 << 10

// demux takes a command's output apart: frames with a header of 8 bytes, of
// which the first is the stream and the last four are the length (the Engine's
// API reference, "Attach to a container"). Unlike the client's own function it
// holds no frame whole, and says so if the last one is not.
func demux(stdout, stderr io.Writer, from io.Reader) error {
	buf := make([]byte, outputSize)
	for {
		var head [8]byte
		_, err := io.ReadFull(from, head[:])
		switch {
		case err == io.EOF, errors.Is(err, syscall.ECONNRESET):
			// An engine that closes a connection on which input arrives resets it.
			return nil
		case err != nil:
			return err
		}
		var to io.Writer
		switch head[0] {
		case 0, 1:
			to = stdout
		case 2:
			to = stderr
		default:
			return fmt.Errorf("the output has a stream %d, which is not understood", head[0])
		}
		left := io.LimitReader(from, int64(binary.BigEndian.Uint32(head[4:])))
		n, err := io.CopyBuffer(to, left, buf)
		if err == nil && n < int64(binary.BigEndian.Uint32(head[4:])) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}
