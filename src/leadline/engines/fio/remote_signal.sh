# shellcheck shell=sh
# Send signal $2 to the execution in folder $1; fails where it has not begun yet.
cd "$1" 2>/dev/null || exit 1
[ -e ended ] && exit 0
[ -s pid ] || exit 1
if [ "$2" = KILL ]; then
    # timeout(1) leads a group of its own; killed alone, it would leave fio behind.
    kill -s KILL -- "-$(cat pid)"
else
    kill -s "$2" "$(cat pid)"
fi
