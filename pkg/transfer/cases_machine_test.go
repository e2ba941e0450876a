package transfer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/local"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

// machineTools are what a machine has, as far as this one has it.
const machineTools = "sh base64 gzip sha256sum shasum cksum xargs find stat readlink touch head tail dd sed cut cmp mv rm df" +
	" tar cat mkdir rmdir chmod ln ls wc tr sort id sleep kill printf test cp"

// machine returns a sandbox in which some tools are others than they seem:
// shell scripts, in which $REAL is the tool itself. The shell is always this
// machine's, since BusyBox's finds its own tools without looking at PATH.
func (k kindOfSandbox) machine(t testing.TB, tools map[string]string) provider.Sandbox {
	t.Helper()
	busybox, applets := "", ""
	if k.busybox {
		openFake(t, providertest.Options{BusyBox: true}) // skips, or fails, without BusyBox
		busybox = lookPath(t, "busybox")
		list, err := exec.Command(busybox, "--list").Output()
		must(t, err)
		applets = "\n" + string(list)
	}
	bin, behind := t.TempDir(), t.TempDir()
	for name := range strings.FieldsSeq(machineTools) {
		file, err := exec.LookPath(name)
		if busybox != "" && name != "sh" {
			file, err = busybox, nil
			if !strings.Contains(applets, "\n"+name+"\n") {
				continue
			}
		}
		if err != nil {
			continue
		}
		link := filepath.Join(bin, name)
		if _, other := tools[name]; other {
			link = filepath.Join(behind, name)
		}
		must(t, os.Symlink(file, link))
	}
	for name, script := range tools {
		text := "#!/bin/sh\nREAL=" + filepath.Join(behind, name) + "\n" + script
		must(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	return local.New(local.Options{Path: bin, ExecOnly: !k.stream})
}

func lookPath(t testing.TB, name string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	must(t, err)
	file, err = filepath.Abs(file)
	must(t, err)
	return file
}
