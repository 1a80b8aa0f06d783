#!/bin/sh
# The end of what nvme-tcp.sh NQN began.
set -eu
subsystem=/sys/kernel/config/nvmet/subsystems/$1 port=/sys/kernel/config/nvmet/ports/1
nvme disconnect -n "$1"
backing=$(cat "$subsystem/namespaces/1/device_path")
rm "$port/subsystems/$1"
rmdir "$port" "$subsystem/namespaces/1" "$subsystem"
losetup --detach "$backing"
rm /var/namespace
