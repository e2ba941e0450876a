package provider

import "testing"

// https://github.com/kubernetes/kubectl/issues/1225,
// https://github.com/kubernetes/kubernetes/issues/101985 and
// https://github.com/kubernetes/kubernetes/issues/110120: a drive letter is taken
// for the name of a pod.
func TestCase_B27(t *testing.T) {
	for _, tc := range []struct {
		in       string
		onlyThen bool // a path on Windows only
	}{
		{`C:\tmp\f`, false}, {`d:/x`, false}, {`C:\`, false}, {`z:/`, false}, {`c:\a:b`, false}, {`C:\local:\x`, false},
		{`.\C:f`, false}, {`\\server\share\f`, false}, {`\\?\C:\f`, false}, {`\x:y`, false}, {`..\d:`, false},
		{`C:f`, true}, {`C:`, true}, {`x:y:z`, true}, {`D:..\f`, true},
	} {
		for _, goos := range []string{"linux", "darwin", "windows"} {
			want := !tc.onlyThen || goos == "windows"
			if got := IsHostPath(tc.in, goos); got != want {
				t.Errorf("IsHostPath(%q, %s) = %v", tc.in, goos, got)
			}
			if got, err := ParseTarget(tc.in, goos, nil, isTestProvider); err == nil {
				t.Errorf("ParseTarget(%q, %s) = %+v", tc.in, goos, got)
			}
		}
	}
	// What begins with a provider or a named target is one on Windows, too.
	for _, in := range []string{`local:/C:/x`, `docker:web:/d:/x`, `dev:C:f`, `ssh:host:/\x`} {
		if IsHostPath(in, "windows") {
			t.Errorf("IsHostPath(%q, windows)", in)
		}
		if _, err := ParseTarget(in, "windows", testNamed, isTestProvider); err != nil {
			t.Errorf("ParseTarget(%q, windows): %v", in, err)
		}
	}
}
