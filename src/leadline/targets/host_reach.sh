# Try fio's rbd engine with the configuration on stdin: NAME POOL IMAGE SECONDS. A private copy of the
# configuration exists meanwhile. The exit status is that of fio, or 124 after SECONDS.
umask 077
conf=$(mktemp) || exit 1
trap 'rm -f -- "$conf"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$conf" || exit 1
CEPH_CONF=$conf timeout "$4" fio --name=try --ioengine=rbd "--clientname=$1" "--pool=$2" \
    "--rbdname=$3" --rw=read --readonly --thread --bs=4k --size=4k </dev/null 2>&1
