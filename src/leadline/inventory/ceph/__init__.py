"""The inventory of a Ceph cluster: model, dumps, placement, PG autoscaler."""
