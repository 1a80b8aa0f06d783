# What cloud-init runs in a guest: the agent first, which can then report a failure of the
# rest. Arguments: the packages to install where a program is missing. Environment: the proxy, and in
# LEADLINE_PROGRAMS other programs than those of a run with fio.
home=/run/leadline
mkdir -p "$home"
tty=/dev/ttyS0
[ -e "$tty" ] || tty=/dev/console

start_agent() {
    if [ -d /run/systemd/system ]; then
        systemctl mask --runtime --now "serial-getty@${tty#/dev/}.service"
        # systemd's messages about units would mix with the agent's.
        kill -s RTMIN+21 1
        # An agent that is started again finds its tasks as they were.
        systemd-run --unit=leadline-agent --property=Restart=always --property=KillMode=process \
            --property=TasksMax=infinity --property=LimitMEMLOCK=infinity --property=LimitNOFILE=1048576 \
            /bin/sh /usr/local/lib/leadline/guest_agent.sh "$tty" && return
    fi
    if [ -e /etc/inittab ]; then
        sed -i "/${tty#/dev/}/d" /etc/inittab
        kill -HUP 1
    fi
    setsid sh /usr/local/lib/leadline/guest_agent.sh "$tty" </dev/null >/dev/null 2>&1 &
}

missing() {
    for one in ${LEADLINE_PROGRAMS-fio timeout setsid sha256sum gzip tar base64 blockdev}; do
        command -v "$one" >/dev/null || printf '%s ' "$one"
    done
}

install() {
    if command -v apt-get >/dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get -o DPkg::Lock::Timeout=120 update &&
            apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@"
    elif command -v dnf >/dev/null; then
        dnf install -y "$@"
    elif command -v yum >/dev/null; then
        yum install -y "$@"
    elif command -v zypper >/dev/null; then
        zypper --non-interactive install "$@"
    elif command -v apk >/dev/null; then
        apk add "$@"
    else
        echo "no package manager that is known here" >&2
        return 1
    fi
}

# Where udev makes no names by serial number.
name_disk() {
    command -v udevadm >/dev/null && udevadm settle --timeout=10
    mkdir -p /dev/disk/by-id
    for one in /sys/block/vd*; do
        link=/dev/disk/by-id/virtio-$(cat "$one/serial" 2>/dev/null)
        [ "$link" = /dev/disk/by-id/virtio-leadline ] && [ ! -e "$link" ] &&
            ln -s "/dev/${one##*/}" "$link"
    done
    return 0
}

start_agent >"$home/start.log" 2>&1
{
    name_disk
    # Background work of the distribution would be measured along.
    [ -d /run/systemd/system ] && systemctl stop apt-daily.timer apt-daily-upgrade.timer \
        dnf-makecache.timer fstrim.timer unattended-upgrades.service 2>/dev/null
    status=0
    if [ -n "$(missing)" ]; then
        install "$@" || status=$?
        [ -z "$(missing)" ] || status=1
    fi
    [ "$status" = 0 ] || echo "missing in the guest: $(missing)"
} >"$home/setup.log" 2>&1
echo "$status" >"$home/setup.new"
mv "$home/setup.new" "$home/setup.status"
