#!/usr/bin/env bash
# Runs commands at once and fails if one of them fails. Most tests of real systems wait, which leaves
# the processor to the others. The output of the first is seen as it comes, then that of the others.
# Usage: scripts/in-parallel.sh COMMAND COMMAND...
set -euo pipefail
# A job of its own (-m): what a script starts with `&` alone cannot be interrupted, which is among
# what the tests of real systems do.
set -m
logs=$(mktemp -d)
jobs=()
trap 'for job in "${jobs[@]}"; do kill -INT -- -"$job" 2>/dev/null || true; done; rm -rf "$logs"' EXIT
for command in "${@:2}"; do
    bash -c "$command" >"$logs/${#jobs[@]}" 2>&1 &
    jobs+=($!)
done
status=0
bash -c "$1" || status=$?
for number in "${!jobs[@]}"; do
    wait "${jobs[number]}" || status=$?
    cat "$logs/$number"
done
exit "$status"
