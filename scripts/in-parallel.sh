#!/usr/bin/env bash
# Runs two commands at once and fails if one of them fails. Most tests of real systems wait, which
# leaves the processor to the others. The output of the second command follows that of the first.
# Usage: scripts/in-parallel.sh COMMAND COMMAND
set -euo pipefail
# A job of its own (-m): what a script starts with `&` alone cannot be interrupted, which is among
# what the tests of real systems do.
set -m
log=$(mktemp)
bash -c "$2" >"$log" 2>&1 &
second=$!
trap 'kill -INT -- -"$second" 2>/dev/null || true; rm -f "$log"' EXIT
status=0
bash -c "$1" || status=$?
wait "$second" || status=$?
cat "$log"
exit "$status"
