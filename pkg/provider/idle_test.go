package provider

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// untilCancelled does step every second, n times, and then hangs.
func untilCancelled(n int, step func()) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for range n {
			time.Sleep(time.Second)
			step()
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

func TestIdleEndsSilence(t *testing.T) {
	for name, tc := range map[string]struct {
		call func(sb Sandbox, ctx context.Context) error
		stub func(s *stub)
		ends time.Duration // 10 s after the last byte
	}{
		"nothing at all": {
			call: func(sb Sandbox, ctx context.Context) error {
				_, err := sb.Exec(ctx, Command{Label: "list"})
				return err
			},
			stub: func(s *stub) {
				s.exec = func(ctx context.Context, _ Command) (Result, error) { return Result{}, untilCancelled(0, nil)(ctx) }
			},
			ends: 10 * time.Second,
		},
		"input is read for 30 s": {
			call: func(sb Sandbox, ctx context.Context) error {
				_, err := sb.Exec(ctx, Command{Label: "list", Stdin: strings.NewReader(strings.Repeat("x", 99))})
				return err
			},
			stub: func(s *stub) {
				s.exec = func(ctx context.Context, cmd Command) (Result, error) {
					return Result{}, untilCancelled(30, func() { cmd.Stdin.Read(make([]byte, 1)) })(ctx)
				}
			},
			ends: 40 * time.Second,
		},
		"collected output is written for 30 s": {
			call: func(sb Sandbox, ctx context.Context) error {
				_, err := sb.Exec(ctx, Command{Label: "list"})
				return err
			},
			stub: func(s *stub) {
				s.exec = func(ctx context.Context, cmd Command) (Result, error) {
					return Result{}, untilCancelled(30, func() { io.WriteString(cmd.Stdout, "x") })(ctx)
				}
			},
			ends: 40 * time.Second,
		},
		"a file is put for 5 s": {
			call: func(sb Sandbox, ctx context.Context) error {
				return sb.(Filer).PutFiles(ctx, []PutFile{{Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("xxxxxxx")), nil }}})
			},
			stub: func(s *stub) {
				s.put = func(files []PutFile) error {
					r, _ := files[0].Open()
					return untilCancelled(5, func() { r.Read(make([]byte, 1)) })(s.ctx)
				}
			},
			ends: 15 * time.Second,
		},
		"a file is got for 5 s": {
			call: func(sb Sandbox, ctx context.Context) error { return sb.(Filer).GetFile(ctx, "/x", 0, io.Discard) },
			stub: func(s *stub) {
				s.get = func(_ int64, w io.Writer) error { return untilCancelled(5, func() { w.Write([]byte("x")) })(s.ctx) }
			},
			ends: 15 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &stub{caps: Capabilities{Files: true}}
				tc.stub(inner)
				began := time.Now()
				err := tc.call(Idle(inner, 10*time.Second), t.Context())
				if KindOf(err) != Timeout || !IsTemporary(err) || !strings.Contains(err.Error(), "nothing moved for 10s") || HintOf(err) == "" {
					t.Errorf("error %v of kind %v", err, KindOf(err))
				}
				if d := time.Since(began); d != tc.ends {
					t.Errorf("ended after %v, want %v", d, tc.ends)
				}
			})
		})
	}
}

func TestIdleIsNoTotalDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &stub{exec: func(_ context.Context, cmd Command) (Result, error) {
			for range 100 {
				time.Sleep(9 * time.Second)
				io.WriteString(cmd.Stdout, "x")
			}
			return Result{ExitCode: 4}, nil
		}}
		res, err := Idle(inner, 10*time.Second).Exec(t.Context(), Command{})
		if err != nil || res.ExitCode != 4 || string(res.Stdout) != strings.Repeat("x", 100) {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// slowSink is a caller that takes its time: that is not the sandbox's silence.
type slowSink time.Duration

func (s slowSink) Write(p []byte) (int, error) { time.Sleep(time.Duration(s)); return len(p), nil }

func TestIdleAllowsASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &stub{exec: func(ctx context.Context, cmd Command) (Result, error) {
			io.WriteString(cmd.Stdout, "x")
			return Result{}, ctx.Err()
		}}
		if _, err := Idle(inner, 10*time.Second).Exec(t.Context(), Command{Stdout: slowSink(time.Minute)}); err != nil {
			t.Error(err)
		}
	})
}

func TestIdlePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &stub{exec: func(ctx context.Context, _ Command) (Result, error) {
			time.Sleep(time.Hour)
			return Result{}, ctx.Err()
		}}
		if _, err := Idle(inner, 10*time.Second).Exec(Patient(t.Context()), Command{}); err != nil {
			t.Error(err)
		}
		if sb := Idle(inner, 0); sb != Sandbox(inner) {
			t.Errorf("a limit of 0 wraps the sandbox")
		}
	})
}

func TestIdleKeepsOtherErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		inner := &stub{exec: func(ctx context.Context, cmd Command) (Result, error) {
			if cmd.Label == "large" {
				_, err := io.WriteString(cmd.Stdout, "too large")
				return Result{}, err
			}
			<-ctx.Done()
			return Result{}, ctx.Err()
		}}
		sb := Idle(inner, 10*time.Second)
		if _, err := sb.Exec(ctx, Command{Label: "large", MaxOutput: 3}); KindOf(err) != TooLarge {
			t.Errorf("error %v", err)
		}
		if _, err := sb.Exec(ctx, Command{}); !errors.Is(err, context.DeadlineExceeded) || KindOf(err) == Timeout {
			t.Errorf("the caller's own deadline: %v", err)
		}
	})
}
