"""The lab: a real, throw-away Ceph cluster on one machine, with zones and delay between them."""
