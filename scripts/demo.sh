#!/usr/bin/env bash
# The demo: two real Ceph clusters on this machine, single-zone and multi-zone. Without Ceph: a
# directory and, as root, a loop-backed block device.
# Everything except the archive and the pages is removed after success, failure and interruption.
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

measure() { # arguments of `leadline run`
    local status=0
    uv run --frozen leadline run "$@" --runs "$runs" &
    child=$!
    wait "$child" || status=$?
    child=""
    # 1: the audit refuses some numbers. That is a result, and the page lists them.
    [ "$status" -le 1 ] || exit "$status"
}

no_lab=$(uv run --frozen leadline doctor | sed -n 's/^\(lacking\|missing\) *lab  *//p') || true
left_out=()
if [ -z "$no_lab" ]; then
    echo "Two real Ceph clusters start on this machine. The replicas of one are in three racks of one"
    echo "zone, those of the other in three zones with 1 ms between them. Three pools are measured on"
    echo "both at three depths, interleaved, three times. Duration: about seven minutes."
    plan=plans/demo.yaml
    available=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
    if [ "$available" -lt 12 ]; then
        echo "Their stores are on disk, because $available GiB of memory are free and 12 are required. Writes are slower."
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
        left_out+=("the block device: a loop device needs root")
    elif ! command -v losetup >/dev/null; then
        left_out+=("the block device: there is no losetup (Debian: mount)")
    else
        truncate --size 320M "$work/disk"
        # direct-io bypasses the page cache of the host
        if loop=$(losetup --find --show --direct-io=on "$work/disk" 2>"$work/losetup.err"); then
            targets+=(--target "block-device=device:$loop")
            consent=(--destroy-data "$loop")
        else
            loop=""
            left_out+=("the block device: $(head -n 1 "$work/losetup.err")")
        fi
    fi
    printf 'Left out: %s\n' "${left_out[@]}"
    echo "Measuring $((${#targets[@]} / 2)) real target(s), three workloads, three repeats. Duration: at most 90 seconds."
    echo
    measure plans/demo-directory.yaml "${targets[@]}" "${consent[@]}"
fi

page=$runs/demo.html
uv run --frozen leadline report @latest --runs "$runs" -o "$page" --force >/dev/null
run_page=""
if [ -z "$no_lab" ]; then
    run_page=$page
    page=$runs/demo-comparison.html
    two=(single-zone multi-zone --by cluster --run @latest --runs "$runs")
    uv run --frozen leadline report "${two[@]}" -o "$page" --force >/dev/null
    echo
    # The page has the whole answer, also if nothing is comparable.
    uv run --frozen leadline compare "${two[@]}" 2>/dev/null || true
    # Forecast from the single-zone cluster alone, and held against the multi-zone one.
    forecast=$runs/demo-forecast.html
    zones=(@latest --cluster single-zone --against multi-zone --runs "$runs")
    echo
    uv run --frozen leadline predict "${zones[@]}" -o "$forecast" --force >/dev/null || forecast=""
    uv run --frozen leadline predict "${zones[@]}" || true
fi
echo
echo "The page:      $page"
[ -z "$run_page" ] || echo "Page of run:   $run_page"
[ -z "${forecast:-}" ] || echo "Forecast:      $forecast"
echo "Next:          uv run leadline show @latest --runs $runs"
if [ -n "$run_page" ]; then
    echo "               uv run leadline recommend @latest --for database --runs $runs"
else
    echo "               uv run leadline rank @latest --runs $runs"
fi
echo "               uv run leadline explain client-saturated"
echo "               uv run leadline lab up mine          (an ephemeral Ceph cluster)"
echo "               uv run leadline run --target dir:/your/path --profile quick"
[ ${#left_out[@]} -eq 0 ] || printf 'Left out:      %s\n' "${left_out[@]}"
