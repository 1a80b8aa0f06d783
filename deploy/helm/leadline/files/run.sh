#!/bin/sh
# One scheduled run: leadline, then the copy of its archives. The status is the run's own, unless
# only the copy failed (then 3). As the container's first process it passes SIGTERM on, and waits:
# Leadline needs the time to remove what it made in the cluster.
set -u

child='' asked=''
trap 'asked=yes; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM INT
leadline run /etc/leadline/plan.yaml --quiet "$@" &
child=$!
# The signal may have come before there was anybody to pass it on to.
[ -z "$asked" ] || kill -TERM "$child" 2>/dev/null
wait "$child"
status=$?
# A signal ends `wait` before the run has ended.
while kill -0 "$child" 2>/dev/null; do
    wait "$child"
    status=$?
done
# One more signal does not end the copy; what is begun from here on is not told to ignore it.
trap : TERM INT

if [ -n "${S3_DESTINATION:-}" ]; then
    # An archive is not changed once it is finished, but --resume goes on with one: checksums say.
    if rclone copy --checksum --exclude '*.lock' "$LEADLINE_RUNS" "s3:$S3_DESTINATION"; then
        echo "copied $LEADLINE_RUNS to s3:$S3_DESTINATION" >&2
    else
        echo "error: the archives could not be copied to s3:$S3_DESTINATION; they are still in $LEADLINE_RUNS" >&2
        [ "$status" != 0 ] || status=3
    fi
fi
exit "$status"
