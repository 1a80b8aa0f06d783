"""Pools that a study creates, as recipes for Ceph and for Rook."""
