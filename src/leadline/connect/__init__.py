"""Connections to systems: local programs, SSH, Ceph, Kubernetes."""
