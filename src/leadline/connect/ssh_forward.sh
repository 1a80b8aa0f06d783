# Run here: TOKEN SOCKET TURN SSH...: ssh, which forwards SOCKET.early; that becomes SOCKET when the
# host has said TOKEN, and is gone when ssh is. TURN is a file to be locked until then, or empty.
token=$1 socket=$2 turn=$3
shift 3
if [ -n "$turn" ] && { : >>"$turn"; } 2>/dev/null && command -v flock >/dev/null; then
    exec 9>>"$turn"
    flock 9
fi
rm -f -- "$socket.in" "$socket.out"
mkfifo -- "$socket.in" "$socket.out" || exit 1
# For stdin what never ends: its end would be that of the server.
exec <>"$socket.in"
{
    while read -r line; do
        [ "$line" = "$token" ] || continue
        # Where it cannot be had, ssh, which has this shell's number, is of no use.
        mv -f -- "$socket.early" "$socket" || kill "$$"
        exec 9>&-
    done
    rm -f -- "$socket" "$socket.early"
} <"$socket.out" &
exec >"$socket.out"
rm -f -- "$socket.in" "$socket.out"
exec "$@" 9>&-
