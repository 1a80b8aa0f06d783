"""Names that vulture takes for unused, each with the reader that it cannot see.

`make check` runs vulture over src with this file: a function, property or field that no code uses
fails the check. A line here states why the name stays.
"""

# Called by Python, click, pydantic, functools.singledispatch or rich, never by name.
__getattr__  # `leadline.compare` and the other lazy names of the package
_repr_html_  # what a notebook calls
list_labs  # click: `leadline lab list`
list_pools  # click: `leadline pools list`
list_commands  # click.Group
get_command  # click.Group
format_commands  # click.Group
on_broken_pipe  # rich.console.Console
model_config  # pydantic
_  # functools.singledispatch: one function for each kind of fact
_something  # pydantic validator
_one_target  # pydantic validator
_one_protection  # pydantic validator
_one_kind  # pydantic validator
_lasts  # pydantic validator
_defaults  # pydantic validator
_one_cluster  # pydantic validator
_on_ceph  # pydantic validator
_short_targets  # pydantic validator
_short_detect  # pydantic validator
_short_stop  # pydantic validator
_some_target  # pydantic validator
_limits  # pydantic validator
_hours  # pydantic validator
_zone  # pydantic validator
_labels_agree  # pydantic validator
_one_word  # pydantic validator
_size_of_a_change  # pydantic validator
_lasts  # pydantic validator
_distinct  # pydantic validator
_dimensions_agree  # pydantic validator
_not_empty  # pydantic validator
_fits_together  # pydantic validator
leadline  # the version key of a plan file; imported ahead of a fork in judge.py
frame  # argument of a signal handler
trace  # argument of __exit__
exception  # argument of __exit__

# Written into archives, state files and JSON answers; their readers are users and later versions.
confirmation_ratio  # JSON of a gate
WRITETHROUGH  # host cache of a virtual machine's disk, as an option of a target
WRITEBACK  # the same
row_title  # the template of a heat map
resident_before_bytes  # archive: page cache before a drop
clock_offset_s  # archive: clock of a remote client
logical_sector_bytes  # inventory of a block device
firmware  # inventory of an NVMe controller
uptime_s  # archive: uptime of a guest at its first I/O
commit_s  # archive: what `ceph osd perf` printed during a trial
taken_at  # inventory: time of the snapshot
standbys_wanted  # inventory of CephFS
quota_bytes  # inventory of a pool
degraded_objects  # inventory of a pool
misplaced_objects  # inventory of a pool
backfill_full_ratio  # inventory of a cluster
ideal  # inventory: the autoscaler's own figure
would_adjust  # inventory: the autoscaler's own figure
io_timeout_s  # inventory of a StorageClass
crush_root  # inventory of a CephBlockPool
target_size_ratio  # inventory of a CephBlockPool
failure_domain_key  # inventory of a StorageCluster
region  # inventory of a node
fs_group_policy  # inventory of a CSIDriver
gates  # inventory of a CSIDriver
dedup_ratio  # inventory of a ZFS pool
sources  # data/zfs_parameters.yaml: where an entry comes from
baseline_interval  # JSON of compare
candidate_interval  # JSON of compare
baseline_trials  # JSON of compare
candidate_trials  # JSON of compare
worse  # JSON of compare
inconclusive  # JSON of compare
not_comparable  # JSON of compare
expectations  # JSON of compare
p90  # JSON of layers
full_object_share  # JSON of layers
bytes_ratio_least  # JSON of layers
bytes_ratio_most  # JSON of layers
full_share  # JSON of layers
empty_share  # JSON of layers
rank_interval_from  # JSON of rank
recommended  # JSON of recommend
would_change  # JSON of recommend
most_trials  # JSON of check
most_seconds  # JSON of check
latency_mean  # JSON of scale
latency_p50  # JSON of scale
latency_p95  # JSON of scale
latency_p99  # JSON of scale
latency_p999  # JSON of scale
iops_refused  # JSON of scale
latency_refused  # JSON of scale
peak_iops  # JSON of scale
r_squared  # JSON of scale
intervals_from  # JSON of scale
usl  # JSON of scale
open_limit  # JSON of scale
baseline_level  # JSON of scale
baseline_load  # JSON of scale
candidate_load  # JSON of scale
efficiency_interval  # JSON of scale
baseline_run  # JSON of scale
candidate_run  # JSON of scale
doubts  # JSON of inventory
acts  # JSON of inventory: whether the autoscaler changes the pool
distribution  # JSON of inventory
doubt  # JSON of plan
prefill_bps_assumed  # JSON of plan
claimed_volumes  # JSON of pools
made_by_leadline  # JSON of pools

# Values that a user or a file can name.
ANY  # data/effects.yaml
COUNT  # data/zfs_parameters.yaml: a unit
METADATA  # a CephFS pool's role in Ceph's dumps
CSI_CEPH_DRIVER  # data/kubernetes_kinds.yaml
POSIXAIO  # `engine:` of a plan
PVSYNC2  # `engine:` of a plan
MMAP  # `engine:` of a plan
BIRTH  # a column of ZFS's txgs kstat
QUIESCED  # a column of ZFS's txgs kstat
WAIT_FOR_SYNC  # a column of ZFS's txgs kstat
SYNCED  # a column of ZFS's txgs kstat
DURING  # a phase of a drill; phases are read in their order
AFTER  # a phase of a drill
verify_s  # zfs-stream's report: time of the checksum pass

# Columns of a sampled record, read as a whole; fuzz/ and the tests check every one.
user_share  # host rates
system_share  # host rates
iowait_share  # host rates
read_bps  # host rates
write_bps  # host rates
held_back_s_per_s  # host rates
received_packets  # host counters
sent_packets  # host counters
normal_read  # /proc/self/mountstats
normal_written  # /proc/self/mountstats
direct_read  # /proc/self/mountstats
direct_written  # /proc/self/mountstats
read_pages  # /proc/self/mountstats
written_pages  # /proc/self/mountstats
transmissions  # /proc/self/mountstats
birth_s  # txgs kstat
quiesce_s  # txgs kstat
sequence  # identity of a block device, compared as a whole
serial  # identity of a block device, compared as a whole
wwn  # identity of a block device, compared as a whole
remote_messages  # of an I/O: for the load of links between places
readable  # io.RawIOBase
layout_reason  # JSON of import
slope_interval  # JSON of scale
fall_interval  # JSON of scale
hard_limit_iops  # JSON of scale
peak_bandwidth  # JSON of check
waits_seconds  # JSON of check
_named_settings  # pydantic
_no_parent  # pydantic
_has_keys  # pydantic
_placeholders  # pydantic
host_file  # a key of a setting, read by its name

# Of records of an archive.
salt  # makes the digest of a line of `undo.jsonl` say nothing of its content
