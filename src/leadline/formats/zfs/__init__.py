"""What the tools of ZFS print, one module for each output: OpenZFS on Linux and zfs-fuse."""
