#!/usr/bin/env bash
# What tests/kubernetes needs beside the checkout: a container runtime by apt, the programs of
# Kubernetes from Go modules (minutes at first, then at once). `make test-kubernetes` calls it;
# with the argument `guest`, which adds QEMU, `make test-deep`.
# Without them the tests say loudly what is missing (tests/kubernetes/probe.py).
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

say() { printf 'setup: %s\n' "$*" >&2; }

wanted=()
for pair in containerd:containerd runc:runc ip:iproute2 mkfs.ext4:e2fsprogs losetup:mount \
    unshare:util-linux openssl:openssl cc:gcc fio:fio ps:procps buildah:buildah mmdebstrap:mmdebstrap; do
    command -v "${pair%%:*}" >/dev/null || wanted+=("${pair##*:}")
done
if [ "${1:-}" = guest ]; then # a virtual machine with a real console, for the deep test
    for pair in qemu-system-x86_64:qemu-system-x86 genisoimage:genisoimage; do
        command -v "${pair%%:*}" >/dev/null || wanted+=("${pair##*:}")
    done
fi
[ -e /usr/lib/cni/bridge ] || wanted+=(containernetworking-plugins)
[ -e /usr/include/stdio.h ] || wanted+=(libc6-dev)
if [ ${#wanted[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing ${wanted[*]}"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq >&2 || say "the package lists cannot be had"
        # The packages would start a container daemon of the machine's own, which nobody asked for.
        policy=/usr/sbin/policy-rc.d
        if [ ! -e "$policy" ]; then
            printf '#!/bin/sh\nexit 101\n' >"$policy"
            chmod 755 "$policy"
            trap 'rm -f "$policy"' EXIT
        fi
        apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null ||
            say "apt-get install ${wanted[*]} failed"
    else
        say "no pods here: this machine lacks ${wanted[*]}"
    fi
fi
tests/kubernetes/build.sh >/dev/null
