#!/usr/bin/env bash
# Build the Containerfile without a registry. mmdebstrap builds the Debian base image from the package
# mirror; all other steps are those of any build. Needs root and buildah of Debian.
#
# Usage: build-offline.sh DIRECTORY [runner|leadline ...]     (both by default)
# Writes DIRECTORY/leadline-runner.tar and DIRECTORY/leadline.tar (OCI archives; to load them, see
# docs/guides/kubernetes-air-gapped.md) and prints the digest of each. The base image is cached in
# $XDG_CACHE_HOME/leadline/image (else ~/.cache).
set -euo pipefail

fail() { # fact, hint
    printf 'error[environment]: %s\nhint: %s\n' "$1" "$2" >&2
    exit 3
}

[ $# -ge 1 ] || { echo "usage: $0 DIRECTORY [runner|leadline ...]" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- runner leadline
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || fail "building a base image needs root" "run it with sudo, or with unshare --map-auto"
for program in mmdebstrap buildah; do
    command -v $program >/dev/null || fail "there is no $program" "apt-get install --no-install-recommends $program"
done

suite=bookworm
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leadline/image
mkdir -p "$cache"
base=$cache/$suite-$(dpkg --print-architecture).tar
sources=()
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    if [ -s "$file" ]; then sources+=("$file"); fi
done
if [ ! -e "$base" ]; then
    mmdebstrap --quiet --variant=minbase "$suite" "$base.new" --format=tar "${sources[@]}"
    mv "$base.new" "$base"
fi

# Separate storage and layers: nothing stays in the storage of the machine.
work=$(mktemp -d -p "${TMPDIR:-/var/tmp}" leadline-image-XXXXXX)
trap 'buildah rm --all >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
printf '[storage]\ndriver = "overlay"\nrunroot = "%s/run"\ngraphroot = "%s/graph"\n' "$work" "$work" >"$work/storage.conf"
export CONTAINERS_STORAGE_CONF=$work/storage.conf BUILDAH_ISOLATION=chroot

container=$(buildah from scratch)
buildah add --quiet "$container" "$base" / >/dev/null
buildah commit --quiet "$container" localhost/leadline-base >/dev/null
buildah rm "$container" >/dev/null

# A network with TLS inspection has certificates of its own. The build uses them; the image does not
# contain them.
certificates=()
if [ -n "${SSL_CERT_FILE:-}" ]; then
    certificates=(--volume "$SSL_CERT_FILE:/run/network-certificates.pem:ro"
        --build-arg SSL_CERT_FILE=/run/network-certificates.pem
        --build-arg PIP_CERT=/run/network-certificates.pem)
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml | head -n 1)
for target in "$@"; do
    case $target in runner) name=leadline-runner ;; leadline) name=leadline ;; *) fail "there is no stage $target" "runner or leadline" ;; esac
    buildah build --quiet --pull=never --layers --network host "${certificates[@]}" \
        --build-arg BASE=localhost/leadline-base --build-arg VERSION="$version" \
        --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || echo unknown)" \
        --target "$target" --tag "localhost/$name:$version" --file Containerfile . >/dev/null
    rm -f "$out/$name.tar"
    buildah push --quiet --digestfile "$work/digest" "localhost/$name:$version" \
        "oci-archive:$out/$name.tar:localhost/$name:$version"
    printf '%s\t%s\n' "$out/$name.tar" "$(cat "$work/digest")"
done
