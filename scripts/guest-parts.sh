#!/usr/bin/env bash
# Installs the requirements of tests/guest by apt: QEMU with its RBD driver, and mmdebstrap.
# `make test-deep` calls it. The tests build the guest itself (docs/internals/guest.md).
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

say() { printf 'setup: %s\n' "$*" >&2; }

wanted=()
for pair in qemu-system-x86_64:qemu-system-x86 mmdebstrap:mmdebstrap mkfs.ext4:e2fsprogs \
    setpriv:util-linux strip:binutils; do
    command -v "${pair%%:*}" >/dev/null || wanted+=("${pair##*:}")
done
compgen -G '/usr/lib/*/qemu/block-rbd.so' >/dev/null || wanted+=(qemu-block-extra)
# shellcheck disable=SC2016 # field names of apt
lists=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null || true)
[ ${#wanted[@]} -gt 0 ] || [ -z "$lists" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2 || say "the package lists cannot be downloaded"
    [ ${#wanted[@]} -gt 0 ] || exit 0
    say "installing ${wanted[*]}"
    apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null ||
        say "apt-get install ${wanted[*]} failed"
else
    say "no guest on this machine: it lacks ${wanted[*]}"
fi
