# Leadline's agent in a guest: answers requests on the serial console TTY, and nothing else does.
#
#     sh guest_agent.sh TTY
#
# A request is one line `@L NONCE VERB TASK PART NUMBER PAYLOAD SUM`, an answer one line
# `@A NONCE STATUS PAYLOAD SUM@`: payloads in base64, `-` for none, SUM the first 16 digits of the
# SHA-256 of what stands between the tag and it. Whatever else is on the line is passed over, here
# and there. Every request may come twice: a second one changes nothing and is answered the same.
#
#     put TASK PART NUMBER PAYLOAD   a piece of PART (command, given) of a task
#     run TASK - - -                 begin a task whose command and given are there
#     get TASK out|err OFFSET SIZE   STATUS: exit status, `-` while it runs, `lost` if unknown
#     kill TASK | drop TASK | hello
#
# It reports itself until the first request: until then nothing may be written to a
# console, where a boot loader would take it for a key.
set -f
trap "" HUP
umask 077
tty=$1
home=/run/leadline
mkdir -p "$home/tasks" "$home/scratch"
boot=$(cat /proc/sys/kernel/random/boot_id)

open_console() {
    exec <"$tty" >"$tty"
    stty raw -echo -hupcl clocal 115200 2>/dev/null || stty raw -echo 2>/dev/null
    # Only what ends the kernel may still write to the console.
    dmesg -n 1 2>/dev/null
}

sum_of() {
    sum=$(printf '%s' "$1" | sha256sum)
    sum=$(printf '%.16s' "$sum")
}

answer() {
    sum_of "$1 $2 $3"
    printf '\n@A %s %s %s %s@\n' "$1" "$2" "$3" "$sum"
}

begin() {
    # The directory is made once, however often this is asked.
    mkdir "$1/begun" 2>/dev/null || return 0
    for part in command given; do
        number=0
        : >"$1/$part"
        while [ -e "$1/$part.$number" ]; do
            cat "$1/$part.$number" >>"$1/$part" && rm "$1/$part.$number"
            number=$((number + 1))
        done
    done
    : >"$1/out"
    : >"$1/err"
    # A session of its own: it outlives the agent, and is ended as a whole.
    setsid sh -c '
        echo $$ >"$1/pid"
        cd / && sh "$1/command" <"$1/given" >"$1/out" 2>"$1/err"
        echo $? >"$1/end.new" && mv "$1/end.new" "$1/end"
    ' sh "$1" </dev/null >/dev/null 2>&1 &
}

get() { # NONCE FOLDER STREAM OFFSET SIZE
    # Before the output: where the end is known, all of it is there.
    state=-
    [ -e "$2/end" ] && state=$(cat "$2/end")
    payload=$(tail -c "+$(($4 + 1))" "$2/$3" 2>/dev/null | head -c "$5" | base64 | tr -d '\n')
    answer "$1" "$state" "${payload:--}"
}

serve() { # NONCE VERB TASK PART NUMBER PAYLOAD
    at=$home/tasks/$3
    case $2 in
    hello)
        : >"$home/met"
        answer "$1" "$boot" -
        ;;
    put)
        if mkdir -p "$at" && { [ -e "$at/begun" ] || printf '%s' "$6" | base64 -d >"$at/$4.$5"; }
        then answer "$1" ok -
        else answer "$1" failed -
        fi
        ;;
    run)
        if [ -d "$at" ]; then begin "$at"; answer "$1" ok -; else answer "$1" lost -; fi
        ;;
    get)
        if [ -d "$at/begun" ]; then get "$1" "$at" "$4" "$5" "$6"; else answer "$1" lost -; fi
        ;;
    kill)
        [ -e "$at/pid" ] && kill -KILL "-$(cat "$at/pid")" 2>/dev/null
        answer "$1" ok -
        ;;
    drop)
        rm -rf "$at"
        answer "$1" ok -
        ;;
    *)
        answer "$1" unknown -
        ;;
    esac
}

open_console
(while [ ! -e "$home/met" ]; do
    printf '\n@leadline %s@\n' "$boot"
    sleep 2
done) &

while :; do
    while IFS= read -r line; do
        case $line in *"@L "*) ;; *) continue ;; esac
        # shellcheck disable=SC2086
        set -- ${line##*@L }
        [ $# -eq 7 ] || continue
        sum_of "$1 $2 $3 $4 $5 $6"
        [ "$sum" = "${7%?}" ] || [ "$sum" = "$7" ] || continue
        # Names of folders: nothing of a request may lead elsewhere.
        case $3$4$5 in */* | *..*) continue ;; esac
        serve "$@"
    done
    # A console that was hung up is opened anew.
    sleep 1
    open_console
done
