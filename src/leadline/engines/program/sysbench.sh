# shellcheck shell=sh
# sysbench fileio in files on the measured volume.
# $1 `check`: print the version; $1 `run`: one trial in this folder, with $2 folder on the volume,
# $3 ramp in s, $4 runtime in s; then the options of sysbench.
set -u
fail() {
    echo "$1" >&2
    exit 3
}
command -v sysbench >/dev/null || fail "there is no sysbench: install the package sysbench"
if [ "$1" = check ]; then
    sysbench --version
    exit
fi
data=$2 ramp=$3 runtime=$4 out=$PWD
shift 4
child="" talk=""
tidy() {
    trap '' INT TERM HUP
    for started in $talk $child; do
        kill -TERM "$started" 2>/dev/null
        wait "$started"
    done
    cd / && rm -rf "$data"
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP
bench() { # in the background, since a shell that waits for a program runs no trap
    sysbench fileio "$@" &
    child=$!
    wait "$child"
    status=$?
    child=""
    return "$status"
}
rm -rf "$data" && mkdir "$data" && cd "$data" || exit 3
bench "$@" prepare >"$out/prepare.txt" 2>&1 ||
    fail "sysbench prepare failed: $(tail -n 1 "$out/prepare.txt")"
for file in test_file.*; do # written back and out of the page cache
    dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none || exit 3
done
if [ "$ramp" != 0 ]; then
    bench "$@" --time="$ramp" run >"$out/ramp.txt" 2>&1 ||
        fail "sysbench failed: $(tail -n 1 "$out/ramp.txt")"
fi
: >"$out/sysbench.txt"
tail -f "$out/sysbench.txt" &
talk=$!
bench "$@" --time="$runtime" --report-interval=1 --histogram=on --percentile=99 run \
    >"$out/sysbench.txt" 2>&1 || fail "sysbench failed: $(tail -n 1 "$out/sysbench.txt")"
