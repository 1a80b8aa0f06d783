#!/usr/bin/env bash
# Installs the requirements of tests/kubernetes: a container runtime by apt, the programs of Kubernetes,
# Helm and krew from Go modules (minutes the first time, then immediate). `make test-kubernetes` calls it;
# `make test-deep` calls it with the argument `guest`, which adds QEMU.
# Without them the tests report the missing programs (tests/kubernetes/probe.py).
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
        apt-get update -qq >&2 || say "the package lists cannot be downloaded"
        # Prevent the packages from starting a container daemon of the machine.
        policy=/usr/sbin/policy-rc.d
        if [ ! -e "$policy" ]; then
            printf '#!/bin/sh\nexit 101\n' >"$policy"
            chmod 755 "$policy"
            trap 'rm -f "$policy"' EXIT
        fi
        apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null ||
            say "apt-get install ${wanted[*]} failed"
    else
        say "no pods on this machine: it lacks ${wanted[*]}"
    fi
fi
tests/kubernetes/build.sh >/dev/null
tests/kubernetes/helm/build.sh >/dev/null
