#!/bin/sh
# The guest's first process: devices, network, then the agent until it ends.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
hostname guest
mount -t devpts devpts /dev/pts 2>/dev/null || { mkdir -p /dev/pts && mount -t devpts devpts /dev/pts; }
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t configfs configfs /sys/kernel/config 2>/dev/null
# Before any pool: zpool create waits for the links of a whole disk's partitions.
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --type=subsystems
udevadm trigger --action=add --type=devices
udevadm settle
ip link set lo up
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
mkdir -p /leadline/libraries
mount -o ro /dev/disk/by-id/virtio-libraries /leadline/libraries
modprobe -a zfs loop
echo 'the agent begins'
python3 /leadline/agent.py
echo 'the agent has ended'
sync
echo o >/proc/sysrq-trigger
sleep 60
