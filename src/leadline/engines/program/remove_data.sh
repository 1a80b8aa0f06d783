# shellcheck shell=sh
# Remove the folder $1 of a benchmark program that was ended, and its folder for sockets.
# What may still write there ends first: the processes of group $2, and the processes with the name
# $3 that work in the folder, in sessions of their own. Fails where a process or the folder stays.
data=$1 group=$2 name=$3
# The kernel names a working folder without links.
place=$(readlink -f "$data") || place=$data
writing() { # ids of these processes; those that only wait for their parent are over
    for process in /proc/[0-9]*; do
        { read -r line <"$process/stat"; } 2>/dev/null || continue
        command=${line#*(} command=${command%)*}
        # shellcheck disable=SC2086 # state, parent, group
        set -- ${line##*) }
        case $1 in Z | X) continue ;; esac
        if [ "$3" = "$group" ]; then
            echo "${process#/proc/}"
        elif [ "$command" = "$name" ]; then
            case $(readlink "$process/cwd") in
            "$place" | "$place"/* | "$place (deleted)") echo "${process#/proc/}" ;;
            esac
        fi
    done
}
turn=0
while found=$(writing) && [ -n "$found" ]; do
    turn=$((turn + 1))
    [ "$turn" -le 100 ] || exit 1 # in the kernel, which waits for a disk
    # shellcheck disable=SC2086
    kill -s KILL $found 2>/dev/null
    sleep 0.1
done
rm -rf "$data" "/tmp/leadline-postgres-${group:-none}-"* && [ ! -e "$data" ]
