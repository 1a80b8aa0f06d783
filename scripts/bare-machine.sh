#!/usr/bin/env bash
# Builds a bare Debian 12 in a separate folder and follows the README:
# apt-get install git make, git clone, make demo, make test. Prints the duration of each step.
# Needs root. Removes all files at the end; LEADLINE_KEEP=1 keeps the folder of the logs.
#
# The new machine gets the package sources and certificates of this machine, like any machine of the
# same network. It gets no package, cache or file of the environment of the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "error[environment]: building a bare machine needs root" >&2; exit 3; }
[ -z "$(git status --porcelain)" ] || echo "note: uncommitted changes are not tested" >&2
if ! command -v mmdebstrap >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null
fi

work=$(mktemp -d -p "${LEADLINE_DEEP_DIR:-/var/tmp}" leadline-bare-XXXXXX)
machine=$work/machine
tidy() {
    trap - EXIT
    # rm could reach the host through a remaining mount: stop instead.
    if grep -q " $machine" /proc/self/mounts; then
        echo "error: mounts remain below $machine; nothing was removed" >&2
        exit 4
    fi
    rm -rf --one-file-system "$machine"
    [ "${LEADLINE_KEEP:-}" = 1 ] || rm -rf "$work"
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP

step() { # name, command...
    local name=$1 began=$SECONDS status=0
    shift
    "$@" >"$work/$name.log" 2>&1 || status=$?
    printf '%-22s %4d s   %s\n' "$name" $((SECONDS - began)) "$([ $status = 0 ] && echo ok || echo "failed ($status)")"
    if [ $status != 0 ]; then tail -n 40 "$work/$name.log"; exit 4; fi
}

within() { # run a command in the new machine, with separate processes, mounts and devices
    unshare --mount --pid --fork --kill-child --propagation private bash -c '
        machine=$1; shift
        mount --bind "$machine" "$machine"  # the root must be a mount, as on a real machine
        mount -t proc proc "$machine/proc"
        mount --rbind /dev "$machine/dev"
        mount --rbind /sys "$machine/sys"
        exec chroot "$machine" env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
            SSL_CERT_FILE=/etc/network-certificates.pem PIP_CERT=/etc/network-certificates.pem \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
    ' bash "$machine" "$@"
}

git clone -q --bare . "$work/leadline.git"
step debian mmdebstrap --quiet --variant=minbase bookworm "$machine" \
    $(find /etc/apt -maxdepth 2 \( -name '*.sources' -o -name 'sources.list' \) -size +0)
cp /etc/ssl/certs/ca-certificates.crt "$machine/etc/network-certificates.pem"
for file in /etc/resolv.conf /etc/hosts; do
    if [ -e "$file" ]; then cp --dereference "$file" "$machine$file"; fi
done
mkdir -p "$machine/srv"
cp -r "$work/leadline.git" "$machine/srv/"
step "git-and-make" within sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends git make'
step clone within git clone -q /srv/leadline.git /root/leadline
step make-demo within make -C /root/leadline demo
step uv-run within sh -c 'cd /root/leadline && uv run --frozen leadline doctor; [ $? -le 3 ]'
step make-test within make -C /root/leadline test
grep -hE '^[0-9]+ (passed|failed)|passed|SKIPPED' "$work/make-test.log" | tail -n 12
sed -n '/^Run perf/,/^The page/p' "$work/make-demo.log" | head -n 40
