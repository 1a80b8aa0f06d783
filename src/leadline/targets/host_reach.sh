# Try fio on a Ceph pool with the configuration on stdin: SECONDS ENGINE OPTION... A private copy of
# the configuration exists meanwhile. The exit status is that of fio, or 124 after SECONDS.
umask 077
conf=$(mktemp) || exit 1
trap 'rm -f -- "$conf"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$conf" || exit 1
seconds=$1 engine=$2
shift 2
# fio's rbd engine reads the name of the configuration from the environment alone.
case $engine in rados) set -- "--conf=$conf" "$@" ;; esac
CEPH_CONF=$conf timeout "$seconds" fio --name=try "--ioengine=$engine" "$@" \
    --rw=read --readonly --thread --bs=4k --size=4k </dev/null 2>&1
