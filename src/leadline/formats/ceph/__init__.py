"""Parsers of what rados bench, rbd bench and Ceph's daemons print."""
