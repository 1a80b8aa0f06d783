#!/usr/bin/env bash
# Installs the requirements of this checkout: system packages by apt, uv by pip, the Python environment by uv.
# Usage: scripts/setup.sh run|test     (test adds a browser, and the packages of development)
# Installs by package name only, and only missing packages. Prints nothing if nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-run}
PATH=$PATH:/usr/sbin:/sbin # util-linux is there; the PATH of a user may lack it

say() { printf 'setup: %s\n' "$*" >&2; }

fail() { # fact, hint
    printf 'error[environment]: %s\nhint: %s\n' "$1" "$2" >&2
    exit 3
}

python=""
find_python() { # the first Python that is new enough
    for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            python=$candidate
            return
        fi
    done
}

find_uv() { # also in the folder of an earlier set-up
    if command -v uv >/dev/null; then
        uv=uv
    elif [ -x .tools/bin/uv ]; then
        uv=.tools/bin/uv
    else
        uv=""
    fi
}

no_services() { # do not start sshd (remote access), zfs-fuse (imports pools) or prometheus at installation
    for unit in "$@"; do
        [ ! -d /etc/systemd/system ] || [ -e "/etc/systemd/system/$unit" ] ||
            ln -s /dev/null "/etc/systemd/system/$unit"
    done
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod 755 /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    say "these services stay disabled until 'systemctl unmask': $*"
}

no_database() { # Debian's package makes a database cluster at its first installation, and starts it
    no_services postgresql.service
    mkdir -p /etc/postgresql-common/createcluster.d
    printf 'create_main_cluster = false\n' >/etc/postgresql-common/createcluster.d/leadline.conf
}

missing=()
find_python
find_uv
[ -n "$python" ] || missing+=(python3)
command -v fio >/dev/null || missing+=(fio)
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ ! -e /etc/debian_version ] || missing+=(ca-certificates)
command -v wipefs >/dev/null || missing+=(util-linux)
command -v findmnt >/dev/null || missing+=(mount)
if [ -z "$uv" ] && ! { [ -n "$python" ] && "$python" -c 'import ensurepip, venv' 2>/dev/null; }; then
    missing+=(python3-venv)
fi
if [ "$purpose" = test ]; then
    command -v bindfs >/dev/null || missing+=(bindfs)
    # for the checks of the scripts for pods and guests
    command -v shellcheck >/dev/null || missing+=(shellcheck)
    command -v busybox >/dev/null || missing+=(busybox)
    command -v openssl >/dev/null || missing+=(openssl)
    # power cuts are replayed from the system calls that strace records
    command -v strace >/dev/null || missing+=(strace)
    # the guard of a run reads a real Prometheus; its metrics are the test's own
    command -v prometheus >/dev/null || missing+=(prometheus)
    # what a plan's Prometheus knows of hosts and daemons
    for name in prometheus-node-exporter prometheus-process-exporter; do
        command -v "$name" >/dev/null || missing+=("$name")
    done
    # databases and small files; the tests start PostgreSQL themselves, without a network socket
    command -v pgbench >/dev/null && compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null ||
        missing+=(postgresql)
    command -v sysbench >/dev/null || missing+=(sysbench)
    # load generators; the tests start sshd themselves, on loopback
    command -v ssh >/dev/null || missing+=(openssh-client)
    command -v sshd >/dev/null || missing+=(openssh-server)
    # ZFS in user space on RBD images, for kernels without ZFS
    command -v zpool >/dev/null || missing+=(zfs-fuse)
    command -v rbd-fuse >/dev/null || missing+=(rbd-fuse)
    # a server of NBD for encrypted RBD images
    command -v qemu-nbd >/dev/null || missing+=(qemu-utils)
    compgen -G '/usr/lib/*/qemu/block-rbd.so' >/dev/null || missing+=(qemu-block-extra)
    command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
    command -v mkfs.btrfs >/dev/null || missing+=(btrfs-progs)
    # a library of the browser driver that a minimal Debian lacks
    compgen -G '/usr/lib/*/libatomic.so.1' >/dev/null || missing+=(libatomic1)
fi
if [ "$purpose" = test ] && [ "${LEADLINE_TEST_WITHOUT_BROWSER:-}" != 1 ]; then
    # `chromium` prints PDF files, and the tests of pages use the same engine without windows
    for name in chromium chromium-headless-shell; do
        command -v "$name" >/dev/null || missing+=("$name")
    done
fi

# Requirements of the lab: a real Ceph cluster in user space, and a compiler for its network. They are
# optional: without them only the lab is missing, which is reported. The tests require them.
wanted=()
for pair in ceph-mon:ceph-mon ceph-mgr:ceph-mgr ceph-osd:ceph-osd ceph-mds:ceph-mds rbd:ceph-common \
    ceph-fuse:ceph-fuse nsenter:util-linux ping:iputils-ping cc:gcc; do
    command -v "${pair%%:*}" >/dev/null || wanted+=("${pair##*:}")
done
[ -e /usr/include/stdio.h ] || wanted+=(libc6-dev)

lists() { # of the packages that can be installed
    export DEBIAN_FRONTEND=noninteractive
    [ -n "${have_lists:-}" ] || apt-get update -qq >&2 || return
    have_lists=yes
}

install_packages() {
    if [ ${#missing[@]} -gt 0 ]; then
        say "installing ${missing[*]}"
        case " ${missing[*]} " in *" openssh-server "*) no_services ssh.service ssh.socket ;; esac
        case " ${missing[*]} " in *" zfs-fuse "*) no_services zfs-fuse.service ;; esac
        case " ${missing[*]} " in *" prometheus"*) no_services prometheus.service \
            prometheus-node-exporter.service prometheus-process-exporter.service ;; esac
        case " ${missing[*]} " in *" postgresql "*) no_database ;; esac
        lists || fail "the package lists cannot be downloaded" "check the network and the apt sources"
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
            fail "apt-get install ${missing[*]} failed" "run it by hand and read its output"
    fi

    if [ ${#wanted[@]} -gt 0 ]; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            say "installing ${wanted[*]} (some 80 MB, for the lab)"
            lists || true
            apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null || lab_lacks="they cannot be installed"
        else
            lab_lacks="installing them needs root and apt"
        fi
        if [ -n "${lab_lacks:-}" ]; then
            say "no lab without ${wanted[*]}: $lab_lacks"
            [ "$purpose" != test ] || fail "the tests need a real Ceph cluster" \
                "as root: apt-get install ${wanted[*]}"
        fi
    fi
}

make_environment() {
    find_python
    [ -n "$python" ] || fail "there is no Python 3.11 or newer" "install one; Debian 12 has it as python3"
    if [ -z "$uv" ]; then
        say "installing uv"
        "$python" -m venv .tools
        # The version and checksums of uv.lock: `uv export --frozen --only-group setup --no-header`.
        .tools/bin/pip install --quiet --disable-pip-version-check --require-hashes -r scripts/uv.txt ||
            fail "uv cannot be installed" "check the network and the configuration of pip"
        uv=.tools/bin/uv
    fi
    # make adds folders to its PATH that a shell of the user does not have.
    user_path=${LEADLINE_USER_PATH:-$PATH}
    if ! (PATH=$user_path && command -v uv >/dev/null); then
        # The README continues with `uv run leadline ...`, so a shell must find uv.
        if [ "$(id -u)" = 0 ]; then bin=/usr/local/bin; else bin=$HOME/.local/bin; fi
        mkdir -p "$bin"
        [ -e "$bin/uv" ] || ln -sf "$PWD/.tools/bin/uv" "$bin/uv" # -f: the link of a removed checkout
        case ":$user_path:" in
            *":$bin:"*) ;;
            *) say "uv is in $bin; add it to your PATH" ;;
        esac
        hash -r
    fi

    # Use the certificates of the system, because a company network may have its own. The second name is
    # for an older uv.
    export UV_SYSTEM_CERTS=true UV_NATIVE_TLS=true
    # A developer who calls `make demo` keeps the packages of development.
    if [ "$purpose" = test ]; then packages=(--group dev); else packages=(--inexact); fi
    UV_PYTHON_DOWNLOADS=never "$uv" sync --frozen --quiet --compile-bytecode "${packages[@]}" \
        --python "${python:-python3}" ||
        fail "the Python environment cannot be created" "run '$uv sync --frozen' and read its output"
    # uv compiles packages only; processes that start at the same time would each compile these.
    "${python:-python3}" -m compileall -q src
}

if [ ${#missing[@]} -gt 0 ] && { [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; }; then
    fail "this machine lacks: ${missing[*]}" \
        "as root: apt-get install ${missing[*]}   (or the packages of these names in your distribution)"
fi

can_start() { # is there what the environment is made with?
    [[ " ${missing[*]} " != *" ca-certificates "* ]] && [ -n "$python" ] &&
        { [ -n "$uv" ] || "$python" -c 'import ensurepip, venv' 2>/dev/null; }
}

if can_start; then # at once: the one mostly waits for the network, the other for the disk
    (install_packages) &
    trap 'wait || true' EXIT # a package is installed to its end
    make_environment
    wait $!
else
    install_packages
    make_environment
fi
