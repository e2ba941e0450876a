#!/bin/sh
# Push a real tree into a sandbox directory on this machine, change it there,
# and pull it back over the archive stream and over base64: the same result.
#
#	sh docs/round-trip.sh [TREE]
#
# Everything is made in ./sbsync-demo. TREE is Go's own library if not given.
set -eu
[ ! -e sbsync-demo ] || { echo "sbsync-demo is there already; remove it first" >&2; exit 1; }
here=$PWD/sbsync-demo
cd "$(dirname "$0")/.."
tree=${1:-$(go env GOROOT)/src}
mkdir "$here"
go build -o "$here/sbsync" .
cd "$here"

echo "== push $tree"
./sbsync push "$tree" "local:$here/box/src"
echo "== change the tree in the sandbox"
first=$(find box/src -type f -size +0 | sort | head -n 1)
echo '// changed in the sandbox' >>"$first"
mkdir box/src/made-in-the-sandbox
ln -s .. box/src/made-in-the-sandbox/link
echo "== pull it over the archive stream"
./sbsync pull --route stream "local:$here/box/src" by-stream
echo "== pull it over base64"
./sbsync pull --route base64 "local:$here/box/src" by-base64
diff -r --no-dereference by-stream by-base64
diff -r --no-dereference by-stream box/src
echo "== both are what the sandbox has; all of it is in $here"
