#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The container image is what engines expect, is the same when it is made again, and serves another host as it is.
# Method: target/install/container-image, twice; the digests of all its parts; two-hosts runs it without an engine.
#   container.sh PACKAGES
set -euo pipefail
[ "$(id -u)" = 0 ] && unshare -mn true 2> /dev/null || { echo "SKIPPED: needs root and namespaces"; exit 77; }
install=$(cd "$(dirname "$0")/../../target/install" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; tail -n 30 "$scratch/out" >&2; exit 1; }

for image in 1 2; do
	"$install/container-image" "$1" "$scratch/$image.tar" > "$scratch/out" 2>&1 || fail "container-image"
done
cmp "$scratch/1.tar" "$scratch/2.tar" || fail "the same packages make another image"
mkdir "$scratch/image"
tar -xf "$scratch/1.tar" -C "$scratch/image"
for blob in "$scratch"/image/blobs/sha256/*; do
	[ "$(sha256sum < "$blob" | cut -d' ' -f1)" = "$(basename "$blob")" ] || fail "$blob: its digest"
done
if command -v skopeo > /dev/null; then
	skopeo inspect "oci-archive:$scratch/1.tar" > "$scratch/out" 2>&1 || fail "skopeo: oci-archive"
	skopeo inspect "docker-archive:$scratch/1.tar" > "$scratch/out" 2>&1 || fail "skopeo: docker-archive"
fi

# Its network namespaces are named after its process: by these ids this test knows its own among the machine's.
two() {
	sh -c 'echo $$ >> "$0"; exec "$@"' "$scratch/pids" "$install/two-hosts" "$scratch/1.tar" "$@" > "$scratch/out" 2>&1
}
says() { grep -qF -- "$1" "$scratch/out" || fail "does not say: $1"; }
two -- rblk copy /bin/bash rblk+tcp://storage1/scratch || fail "two-hosts: rblk copy"
says "verified: crc32c"
two --memory a=8M --null b=1G -- rblk list rblk+tcp://storage1 || fail "two-hosts: arguments"
says '1 GiB'
# The other host is another host, and a command's failure is that of the script.
two -- sh -c '[ "$(hostname)" = client1 ] && ! rblk list rblk+tcp://127.0.0.1' || fail "two-hosts: one host"
! two -- rblk info rblk+tcp://storage1/none || fail "two-hosts: a failure is none"
! two --no-such-option -- true || fail "two-hosts: rblkd failed, and nobody said so"
says "two-hosts: rblkd does not serve"

[ -s "$scratch/pids" ] || fail "two-hosts was not run"
ip netns list > "$scratch/names"
while read -r pid; do
	! grep -E "^(storage1|client1)-$pid( |$)" "$scratch/names" || fail "two-hosts has left a network namespace behind"
done < "$scratch/pids"
