package transfer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/local"
	"github.com/sbsync/sbsync/pkg/tree"
)

type logObs struct{ t *testing.T }

func (l logObs) Routed(m Mapping, route Route, why string) { l.t.Log("route", route, why) }
func (l logObs) Planned(m Mapping, plan []PlannedEntry, files int, bytes int64) {
	l.t.Log("plan", len(plan), files, bytes)
}
func (l logObs) Progress(files int, bytes int64) {}
func (l logObs) Phase(name string)               {}
func (l logObs) Warn(p tree.Problem)             { l.t.Log("warn", p) }
func (l logObs) Log(text string)                 { l.t.Log(text) }

func TestSmoke(t *testing.T) {
	for _, route := range []Route{Stream, Base64} {
		for _, pathv := range []string{"", "/dev/shm/bb/bin"} {
			t.Run(fmt.Sprint(route, pathv), func(t *testing.T) {
				cfg := provider.Config{}
				if pathv != "" {
					cfg["path"] = pathv
				}
				sb, err := local.Driver{}.Open(context.Background(), "", cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer sb.Close()
				dir := "/dev/shm/smoke"
				os.RemoveAll(dir)
				os.MkdirAll(dir, 0o755)
				opt := NewOptions()
				opt.Route = route
				opt.Observer = logObs{t}
				src := "/usr/local/go/src"
				if s := os.Getenv("SRC"); s != "" {
					src = s
				}
				push := func() {
					rep, err := Run(context.Background(), Push, Target{sb, "local"}, []Operation{{ID: "x", Files: []Mapping{{Source: src, Target: dir + "/a/b"}}}}, opt)
					t.Logf("%+v %v", rep, err)
					if err != nil {
						t.Error(err)
					}
				}
				push()
				pull := func() {
					rep, err := Run(context.Background(), Pull, Target{sb, "local"}, []Operation{{ID: "x", Files: []Mapping{{Source: dir + "/a/b", Target: dir + "/back"}}}}, opt)
					t.Logf("%+v %v", rep, err)
					if err != nil {
						t.Error(err)
					}
				}
				pull()
				pull()
				out, err := exec.Command("diff", "-r", src, dir+"/back").CombinedOutput()
				if err != nil {
					t.Fatalf("%s", out)
				}
				out, _ = exec.Command("find", dir, "-name", ".sbsync*").CombinedOutput()
				t.Logf("left: %s", out)
			})
		}
	}
}
