# shellcheck shell=sh
# Wait for the execution in folder $1; print its last lines each second.
cd "$1" || exit 4
turn=0
until [ -e ended ]; do
    sleep 0.25
    turn=$((turn + 1))
    [ $((turn % 4)) -eq 0 ] && tail -c 300 talk.txt 2>/dev/null
done
tail -c 300 talk.txt 2>/dev/null
cat ended >&2
