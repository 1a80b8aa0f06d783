#!/usr/bin/env bash
# Runs tests of real systems with one second chance (docs/adr/0022): failed tests run once more in a
# separate process and on separate clusters. Both runs are printed. Tests that passed only the second
# time are listed at the end.
# Usage: scripts/test-real.sh PYTEST-ARGUMENTS...
set -euo pipefail
cd "$(dirname "$0")/.."
# Tests of one file share a cluster, and one cause fails several of them. More files are not chance.
most=3
cache=$(mktemp -d) # separate: two of these scripts run in parallel
trap 'rm -rf "$cache"' EXIT

run() {
    status=0
    uv run --frozen --group dev pytest -o cache_dir="$cache" "$@" || status=$?
}

run "$@"
# 0: all passed; 2 and more, or no failed test: interrupted, broken, or no test was run
[ "$status" -eq 1 ] && [ -e "$cache/v/cache/lastfailed" ] || exit "$status"
failed=$(uv run --frozen python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' \
    "$cache/v/cache/lastfailed")
[ "$(cut -d : -f 1 <<<"$failed" | sort -u | wc -l)" -le "$most" ] || exit "$status"
printf '\nSECOND CHANCE for\n%s\n' "$failed"
run --last-failed --last-failed-no-failures none "$@"
[ "$status" -eq 0 ] || exit "$status"
printf '\nFAILED ONCE, PASSED WHEN RUN AGAIN (a defect of the test or of Leadline, printed above):\n%s\n' "$failed"
