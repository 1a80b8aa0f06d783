#!/usr/bin/env bash
# Makes a release of the last commit: sdist, wheel, SBOM (CycloneDX) and checksums. The same commit
# gives the same bytes, whatever the folder, umask, time, locale and host
# (docs/internals/supply-chain.md).
# Usage: scripts/release.sh [DIRECTORY]     (dist)
set -euo pipefail
mkdir -p "${1:-dist}"
out=$(cd "${1:-dist}" && pwd)
cd "$(dirname "$0")/.."

fail() { # fact, hint
    printf 'error[environment]: %s\nhint: %s\n' "$1" "$2" >&2
    exit 3
}

git rev-parse --verify -q HEAD >/dev/null || fail "this is no git checkout" "make releases from a clone"
git diff --quiet HEAD -- || fail "there are uncommitted changes" "commit or stash them; a release is a commit"

export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/out"
# The files of the commit alone, with the modes of git.
git -c tar.umask=0022 archive HEAD | tar -x -C "$work/tree"

# The build back end has the versions and checksums of uv.lock.
uv export --frozen --quiet --only-group build --no-header >"$work/build.txt"
uv build --quiet --build-constraints "$work/build.txt" --require-hashes --out-dir "$work/out" "$work/tree"
rm -f "$work/out/.gitignore"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml | head -n 1)
uv export --frozen --quiet --no-dev --format cyclonedx1.5 |
    uv run --frozen --quiet --no-dev python scripts/sbom.py >"$work/out/leadline-$version.cdx.json"
(cd "$work/out" && sha256sum -- * >SHA256SUMS)
cp "$work/out"/* "$out/"
cat "$out/SHA256SUMS"
