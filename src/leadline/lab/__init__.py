"""The lab: a real, ephemeral Ceph cluster on one machine, with zones and delay between them."""
