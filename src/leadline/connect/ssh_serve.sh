# Run on a host: TOKEN DIRECTORY FOLDER COMMAND...: the command as a fio server at DIRECTORY/s, until
# it ends by itself or the connection does, which is the end of stdin.
token=$1 directory=$2 folder=$3
shift 3
umask 077
cd -- "$folder" || exit 1
mkdir -- "$directory" || exit 1
server="" watch=""
# What the server began, by its command line: fio's workers leave its session, and outlive it.
# This shell does not have that word in its own, nor does grep.
living() { grep -lzx -e "--server=sock:$directory/[s]" /proc/[0-9]*/cmdline | cut -d / -f 3; }
end() {
    trap '' HUP INT TERM
    if [ -n "$server" ]; then
        kill -TERM "-$server"
        tries=0
        while [ -n "$(living)" ] && [ "$tries" -lt 30 ]; do
            sleep 0.1
            tries=$((tries + 1))
        done
        living | while read -r one; do kill -KILL "$one"; done
    fi
    [ -z "$watch" ] || kill -KILL "$watch"
    rm -rf -- "$directory"
} 2>/dev/null
trap end EXIT
trap 'exit 1' HUP INT TERM
umask 022
exec 4<&0
# A session of its own, so that it can be ended with all that it began.
setsid "$@" "--server=sock:$directory/s" </dev/null >&2 4<&- &
server=$!
(
    while read -r _; do :; done
    kill -TERM "$$"
) <&4 >/dev/null 2>&1 &
watch=$!
until [ -S "$directory/s" ] || ! kill -0 "$server" 2>/dev/null; do
    sleep 0.05
done
[ ! -S "$directory/s" ] || echo "$token"
wait "$server"
