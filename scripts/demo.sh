#!/usr/bin/env bash
# The main job on the embedded default: two real Ceph clusters on this machine, single-zone beside
# multi-zone. Where that cannot be had: a directory, and where root a loop-backed block device.
# Everything made here is removed on every way out, except the archive and the pages.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:$PWD/.tools/bin:/usr/sbin:/sbin

runs=${LEADLINE_RUNS:-$PWD/leadline-runs}
work=""
loop=""
child=""
tidy() {
    trap - EXIT INT TERM HUP
    if [ -n "$child" ] && kill -0 "$child" 2>/dev/null; then
        kill -INT "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    if [ -n "$loop" ]; then losetup --detach "$loop" 2>/dev/null || true; fi
    [ -z "$work" ] || rm -rf "$work"
}
trap tidy EXIT
trap 'tidy; exit 130' INT TERM HUP

measure() { # what `leadline run` takes
    local status=0
    uv run --frozen leadline run "$@" --runs "$runs" &
    child=$!
    wait "$child" || status=$?
    child=""
    # 1 says that the audit refuses some numbers: a result all the same, and the page tells which.
    [ "$status" -le 1 ] || exit "$status"
}

no_lab=$(uv run --frozen leadline doctor | sed -n 's/^\(lacking\|missing\) *lab  *//p') || true
left_out=()
if [ -z "$no_lab" ]; then
    echo "Two real Ceph clusters come up on this machine: the replicas of one lie in three racks of one"
    echo "zone, those of the other in three zones with 1 ms between them. Three pools are measured on"
    echo "both, interleaved, three times. About five minutes."
    plan=plans/demo.yaml
    available=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
    if [ "$available" -lt 12 ]; then
        echo "Their stores are on disk, since $available GiB of memory are free and 12 are wanted: writes are slower."
        work=$(mktemp -d -p "${LEADLINE_DEMO_DIR:-$PWD}" .leadline-demo-XXXXXX)
        plan=$work/demo.yaml
        sed 's/bluestore-in-memory/bluestore/' plans/demo.yaml >"$plan"
    fi
    echo
    measure "$plan"
else
    left_out+=("the two Ceph clusters: $no_lab")
    work=$(mktemp -d -p "${LEADLINE_DEMO_DIR:-$PWD}" .leadline-demo-XXXXXX)
    mkdir "$work/directory"
    targets=(--target "directory=dir:$work/directory")
    consent=()
    if [ "$(id -u)" != 0 ]; then
        left_out+=("the block device: setting up a loop device needs root")
    elif ! command -v losetup >/dev/null; then
        left_out+=("the block device: there is no losetup (Debian: mount)")
    else
        truncate --size 320M "$work/disk"
        # direct-io, so that the host's page cache does not stand in for the disk
        if loop=$(losetup --find --show --direct-io=on "$work/disk" 2>"$work/losetup.err"); then
            targets+=(--target "block-device=device:$loop")
            consent=(--destroy-data "$loop")
        else
            loop=""
            left_out+=("the block device: $(head -n 1 "$work/losetup.err")")
        fi
    fi
    printf 'Left out: %s\n' "${left_out[@]}"
    echo "Measuring, a minute and a half at most: $((${#targets[@]} / 2)) real target(s), three workloads, three repeats."
    echo
    measure plans/demo-directory.yaml "${targets[@]}" "${consent[@]}"
fi

page=$runs/demo.html
uv run --frozen leadline report @latest --runs "$runs" -o "$page" --force >/dev/null
of_the_run=""
if [ -z "$no_lab" ]; then
    of_the_run=$page
    page=$runs/demo-comparison.html
    two=(single-zone multi-zone --by cluster --run @latest --runs "$runs")
    uv run --frozen leadline report "${two[@]}" -o "$page" --force >/dev/null
    echo
    # The end of the answer, which is on the page too. That nothing can be compared is told there.
    uv run --frozen leadline compare "${two[@]}" 2>/dev/null | sed -n '/^Bottom line$/,$p' || true
fi
echo
echo "The page:      $page"
[ -z "$of_the_run" ] || echo "Of the run:    $of_the_run"
echo "Go on with:    uv run leadline show @latest --runs $runs"
if [ -n "$of_the_run" ]; then
    echo "               uv run leadline recommend @latest --for database --runs $runs"
else
    echo "               uv run leadline rank @latest --runs $runs"
fi
echo "               uv run leadline explain client-saturated"
echo "               uv run leadline lab up mine          (a Ceph cluster to try things on)"
echo "               uv run leadline run --target dir:/where/you/want --profile quick"
[ ${#left_out[@]} -eq 0 ] || printf 'Left out:      %s\n' "${left_out[@]}"
