"""A Ceph cluster as its client sees it: where it is, who we are, and commands to it."""
