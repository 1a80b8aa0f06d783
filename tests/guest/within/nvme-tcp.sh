#!/bin/sh
# A namespace of NVMe over TCP on the loopback address of this machine: nvme-tcp.sh NQN SIZE
set -eu
subsystem=/sys/kernel/config/nvmet/subsystems/$1 port=/sys/kernel/config/nvmet/ports/1
modprobe -a nvmet nvmet-tcp nvme-tcp loop
grep -q ' /sys/kernel/config ' /proc/mounts || mount -t configfs configfs /sys/kernel/config
truncate -s "$2" /var/namespace
backing=$(losetup --find --show /var/namespace)
mkdir "$subsystem" "$subsystem/namespaces/1" "$port"
echo 1 >"$subsystem/attr_allow_any_host"
printf %s "$backing" >"$subsystem/namespaces/1/device_path"
echo 1 >"$subsystem/namespaces/1/enable"
echo ipv4 >"$port/addr_adrfam"
echo tcp >"$port/addr_trtype"
echo 127.0.0.1 >"$port/addr_traddr"
echo 4420 >"$port/addr_trsvcid"
ln -s "$subsystem" "$port/subsystems/"
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$1"
udevadm settle
