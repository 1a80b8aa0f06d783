#!/usr/bin/env bash
# The main job on the embedded default: a directory, and where root a loop-backed block device.
# Everything made here is removed on every way out, except the archive and the page.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:$PWD/.tools/bin:/usr/sbin:/sbin

work=$(mktemp -d -p "${LEADLINE_DEMO_DIR:-$PWD}" .leadline-demo-XXXXXX)
loop=""
child=""
tidy() {
    trap - EXIT INT TERM HUP
    if [ -n "$child" ] && kill -0 "$child" 2>/dev/null; then
        kill -INT "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    if [ -n "$loop" ]; then losetup --detach "$loop" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap tidy EXIT
trap 'tidy; exit 130' INT TERM HUP

runs=${LEADLINE_RUNS:-$PWD/leadline-runs}
mkdir "$work/directory"
targets=(--target "directory=dir:$work/directory")
consent=()
left_out=""
if [ "$(id -u)" != 0 ]; then
    left_out="the block device: setting up a loop device needs root"
elif ! command -v losetup >/dev/null; then
    left_out="the block device: there is no losetup (Debian: mount)"
else
    truncate --size 320M "$work/disk"
    # direct-io, so that the host's page cache does not stand in for the disk
    if loop=$(losetup --find --show --direct-io=on "$work/disk" 2>"$work/losetup.err"); then
        targets+=(--target "block-device=device:$loop")
        consent=(--destroy-data "$loop")
    else
        loop=""
        left_out="the block device: $(head -n 1 "$work/losetup.err")"
    fi
fi

echo "Measuring, a minute and a half at most: $((${#targets[@]} / 2)) real target(s), three workloads, three repeats."
[ -z "$left_out" ] || echo "Left out: $left_out"
echo
status=0
uv run --frozen leadline run plans/demo.yaml "${targets[@]}" "${consent[@]}" --runs "$runs" &
child=$!
wait "$child" || status=$?
child=""
# 1 says that the audit refuses some numbers: a result all the same, and the page tells which.
[ "$status" -le 1 ] || exit "$status"

page=$runs/demo.html
uv run --frozen leadline report @latest --runs "$runs" -o "$page" --force
echo
echo "The page:      $page"
echo "Go on with:    uv run leadline show @latest --runs $runs"
echo "               uv run leadline explain client-saturated"
echo "               uv run leadline run --target dir:/where/you/want --profile quick"
[ -z "$left_out" ] || echo "Left out:      $left_out"
