# shellcheck shell=sh
# Start one execution on a volume, in a pod or a guest; a repeated call starts nothing.
# $1 folder, $2 SHA-256 of the job, $3 start in ms since 1970 by this clock (0: at once),
# $4 bound in s; then fio and its arguments. stdin: the job.
folder=$1 digest=$2 start=$3 bound=$4
shift 4
[ -e "$folder/begun" ] && exit 0
rm -rf "${folder%/*}"/execution-* && mkdir -p "$folder" && cd "$folder" || exit 1
cat >job.fio
echo "$digest  job.fio" | sha256sum -c --quiet - >&2 || exit 1
case $(date +%s%3N) in
*[!0-9]*) echo "date(1) prints no milliseconds here" >&2 && exit 1 ;;
esac
"$1" --version >version.txt
cat >run.sh <<'RUN'
reading() { # the load of this machine and of this container, as far as they are known
    echo "ms $(date +%s%3N)"
    echo "processors $(nproc)"
    head -n 1 /proc/stat
    for file in cpu.max cpu.stat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us cpu/cpu.stat \
        cpuacct/cpuacct.usage; do
        [ -r "/sys/fs/cgroup/$file" ] && sed "s|^|$file |" "/sys/fs/cgroup/$file"
    done
    true
}
start=$1 bound=$2
shift 2
now=$(date +%s%3N)
if [ "$start" -gt "$now" ]; then
    left=$((start - now))
    sleep "$((left / 1000)).$(printf %03d $((left % 1000)))"
fi
reading >before.txt
timeout -s INT -k 10 "$bound" "$@" >talk.txt 2>stderr.txt </dev/null &
echo $! >pid
wait $!
echo $? >status
reading >after.txt
mv status ended
RUN
# Written before the start: a call that is cut off here must not start a second execution.
touch begun || exit 1
setsid sh run.sh "$start" "$bound" "$@" </dev/null >/dev/null 2>&1 &
