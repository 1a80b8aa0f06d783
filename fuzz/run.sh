#!/usr/bin/env bash
# Fuzz every target, or those named, one after the other for FUZZ_SECONDS (20) each; print a table.
# Exit status: 0 nothing found, 1 something found (inputs and traces are in fuzz/crashes), 3 not run.
# The corpus grows in FUZZ_CORPUS (a temporary folder; keep one to go on where the last run ended).
set -u
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-20}
crashes=${FUZZ_CRASHES:-fuzz/crashes}
corpus=${FUZZ_CORPUS:-$(mktemp -d "${TMPDIR:-/tmp}/leadline-fuzz-XXXXXX")}
python=(uv run --frozen --with atheris==3.0.0 python)
fuzz=("${python[@]}" -m fuzz)

if ! "${python[@]}" -c 'import atheris'; then
    echo "NOTHING WAS FUZZED: atheris 3.0.0 cannot be installed here (see above)." >&2
    exit 3
fi
targets=("$@")
if [ $# -eq 0 ]; then mapfile -t targets < <("${fuzz[@]}" --list 2>/dev/null | tr -s ' \n' '\n'); fi

rm -rf "$crashes"
mkdir -p "$crashes"
found=0
printf '%-14s %12s %8s %9s %8s %8s\n' target executions per-s coverage inputs findings
for target in "${targets[@]}"; do
    log=$crashes/$target.log
    "${fuzz[@]}" "$target" --seconds "$seconds" --corpus "$corpus/$target" --crashes "$crashes" \
        >"$log" 2>&1
    status=$?
    last=$(grep -aE '^#[0-9]+.* cov: ' "$log" | tail -n 1)
    executions=$(sed -n 's/^#\([0-9]*\).*/\1/p' <<<"$last")
    coverage=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' <<<"$last")
    inputs=$(sed -n 's/.* corp: \([0-9]*\).*/\1/p' <<<"$last")
    findings=$(find "$crashes" -name "$target-*" ! -name '*.trace' ! -name '*.log' | wc -l)
    # Whatever else ended it early is a finding, too: what it said is in the log.
    if [ "$status" -ne 0 ] && [ "$findings" -eq 0 ]; then findings=1; fi
    found=$((found + findings))
    printf '%-14s %12s %8s %9s %8s %8s\n' "$target" "${executions:-none}" \
        "$((${executions:-0} / seconds))" "${coverage:--}" "${inputs:--}" "$findings"
    if [ "$findings" -gt 0 ]; then grep -aE '^FOUND|^==.*ERROR|Error' "$log" | head -n 20 | cut -c1-200; fi
done
[ -n "${FUZZ_CORPUS:-}" ] || rm -rf "$corpus"
if [ "$found" -gt 0 ]; then
    echo "$found findings in $crashes: mend each, then keep its input in" \
        "tests/recorded/imports/hostile/TARGET/" >&2
    exit 1
fi
rm -rf "$crashes"
