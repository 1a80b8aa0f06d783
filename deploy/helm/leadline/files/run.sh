#!/bin/sh
# One scheduled run: leadline, then the copy of its archives and, after a complete run, the commands that
# judge it. The status is that of the run, else that of the judgement, else 3 if only the copy failed; the
# Job depends on 7, of a run that its guard stopped. As the first process of the container it forwards
# SIGTERM and waits: Leadline needs the time to remove its objects from the cluster.
set -u

child='' asked=''
trap 'asked=yes; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM INT
leadline run /etc/leadline/plan.yaml --quiet "$@" &
child=$!
# The signal may have arrived before the child process existed.
[ -z "$asked" ] || kill -TERM "$child" 2>/dev/null
wait "$child"
status=$?
# A signal ends `wait` before the end of the run.
while kill -0 "$child" 2>/dev/null; do
    wait "$child"
    status=$?
done
# A further signal does not end the copy. Later child processes do not inherit an ignored signal.
trap : TERM INT
copied=0

if [ -n "${S3_DESTINATION:-}" ]; then
    # A finished archive does not change, but --resume changes one: checksums detect that.
    if rclone copy --checksum --exclude '*.lock' "$LEADLINE_RUNS" "s3:$S3_DESTINATION"; then
        echo "copied $LEADLINE_RUNS to s3:$S3_DESTINATION" >&2
    else
        echo "error: the archives could not be copied to s3:$S3_DESTINATION; they are still in $LEADLINE_RUNS" >&2
        copied=3
    fi
fi
judged=0 judge=$(dirname "$0")/judge.sh
# 1: a complete run, of which the audit refuses some numbers.
if [ "$status" -le 1 ] && [ -e "$judge" ]; then
    sh "$judge"
    judged=$?
fi
for ended in $judged $copied; do
    [ "$status" != 0 ] || status=$ended
done
exit "$status"
