package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/term"
)

var errNoTerminal = errors.New("it has a passphrase, and there is no terminal to ask on; use ssh-add")

// askTerminal asks on the terminal that the process belongs to, whatever its
// standard streams are, without an echo.
func askTerminal(ctx context.Context, question string) ([]byte, error) {
	name := "/dev/tty"
	if runtime.GOOS == "windows" {
		name = "CONIN$"
	}
	tty, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, errNoTerminal
	}
	fd := int(tty.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		tty.Close()
		return nil, errNoTerminal
	}
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1)
	fmt.Fprint(os.Stderr, question)
	go func() {
		text, err := term.ReadPassword(fd)
		answered <- answer{text, err}
		tty.Close()
	}()
	select {
	case a := <-answered:
		fmt.Fprintln(os.Stderr)
		return a.text, a.err
	case <-ctx.Done():
		// The read goes on until the process ends; its echo must come back now.
		term.Restore(fd, state)
		fmt.Fprintln(os.Stderr)
		return nil, ctx.Err()
	}
}
