"""What each difference of configuration can do to which cells: one table, with its sources.

Sources: "io-paths" is docs/concepts/explaining.md, which tells what Ceph's source does and gives
the published figures.
"""

from __future__ import annotations

from leadline.analysis.effect import LABELS, READS, REDUNDANCY, WRITES, ZONES, Effect
from leadline.analysis.effects_kubernetes import KUBERNETES_EFFECTS
from leadline.analysis.effects_layers import LAYER_EFFECTS
from leadline.inventory.differences import Difference
from leadline.inventory.differences.network import NOT_MEASURED
from leadline.inventory.differences.processor import CPU_BUDGET

__all__ = ["EFFECTS", "LABELS", "NAMED_BY_PATH", "REDUNDANCY", "ZONES", "Effect", "effects_of"]

# Labels under which the rest of the path says what it is.
NAMED_BY_PATH = ("settings", "workload", "label")
_BLUESTORE = "io-paths: BlueStore, CPU per I/O"
_PUBLISHED_CRYPT = "published measurements of Reef, 2023"

EFFECTS: tuple[Effect, ...] = (
    # Where the copies lie.
    Effect(
        pattern="network.inter_zone_rtt",
        cause=ZONES,
        label="round trip between zones",
        mechanism="a write waits for copies in other zones, a read for a primary that is in one",
        source="io-paths: message counts",
    ),
    Effect(
        pattern="pools.*.failure_domain",
        cause=ZONES,
        label="failure domain",
        mechanism="a write is answered when the farthest copy has it, a read comes from the "
        "primary: the farther apart copies lie, the longer both take",
        source="src/osd/ReplicatedBackend.cc",
    ),
    Effect(
        pattern="topology.crush_levels",
        cause=ZONES,
        label="CRUSH levels",
        mechanism="they say how far apart copies can lie",
        source="src/osd/ReplicatedBackend.cc",
    ),
    Effect(
        pattern=CPU_BUDGET,
        cause="processor quota",
        label="processor of each host",
        mechanism="an OSD that has used its quota up stands still until the next period: fewer "
        "I/Os in a second, and latencies that are the quota's",
        source="Documentation/scheduler/sched-bwc.rst; docs/rules/throttled-system.md",
    ),
    # How many copies.
    Effect(
        pattern="pools.*.redundancy",
        cause=REDUNDANCY,
        label="redundancy",
        mechanism="a write is answered when all copies or shards have it, and each is work for "
        "another OSD; part of a stripe of erasure code is read before it is written",
        source="src/osd/ReplicatedBackend.cc, src/osd/ECTransaction.cc",
        ops=WRITES,
    ),
    Effect(
        pattern="pools.*.redundancy",
        cause=REDUNDANCY,
        label="redundancy",
        mechanism="a read of erasure code is put together from k shards by the primary",
        source="src/osd/ECBackend.cc",
        ops=READS,
        mentions="EC ",
    ),
    # Placement groups.
    Effect(
        pattern="pools.*.pg_num",
        cause="pgs",
        label="PG count",
        mechanism="more placement groups spread I/Os more evenly over OSDs and let more of them go "
        "on at once; one I/O at a time gains nothing",
        source="io-paths: the PG lock, one queue per PG",
        deep=True,
    ),
    Effect(
        pattern="placement.pgs_per_osd",
        cause="pgs",
        label="PGs per OSD",
        mechanism="few of them spread the load unevenly, many cost memory and processor time",
        source="io-paths: PG autoscaler",
        deep=True,
    ),
    Effect(
        pattern="pools.*.pg_state",
        cause="repair",
        label="splitting or merging of PGs",
        mechanism="data moves meanwhile, beside clients' I/O",
        source="Ceph documentation, placement groups",
    ),
    Effect(
        pattern="placement.balancer",
        cause="balancer",
        label="balancer",
        mechanism="it evens out how many placement groups OSDs have, hence how busy they get",
        source="Ceph documentation, balancer",
        deep=True,
        strong=False,
    ),
    Effect(
        pattern="placement.primary_affinity",
        cause="affinity",
        label="primary affinity",
        mechanism="it decides which OSDs lead, hence how far clients' I/O goes and who is busy",
        source="Ceph documentation, primary affinity",
    ),
    Effect(
        pattern="pools.others",
        cause="others",
        label="other pools",
        mechanism="pools share OSDs; one that is not used costs nothing but placement groups",
        source="io-paths: PG autoscaler",
        strong=False,
    ),
    # What does the work.
    Effect(
        pattern="topology.osds",
        cause="osds",
        label="number of OSDs",
        mechanism="more OSDs share the load; one I/O at a time gains nothing",
        source="io-paths: threads and locks of an OSD",
        deep=True,
    ),
    Effect(
        pattern="topology.hosts",
        cause="osds",
        label="number of hosts",
        mechanism="more hosts bring processors and network; one I/O at a time gains nothing",
        source="io-paths: CPU per I/O",
        deep=True,
    ),
    Effect(
        pattern="media.osd_size",
        cause="size",
        label="size of OSDs",
        mechanism="disks of another size are other disks; larger ones of a model are often faster",
        source="vendors' data sheets",
        strong=False,
    ),
    Effect(
        pattern="media.*",
        cause="media",
        label="medium",
        mechanism="every write is committed to it, and a read that no cache has comes from it",
        source=_BLUESTORE,
    ),
    Effect(
        pattern="pools.*.device_class",
        cause="media",
        label="device class",
        mechanism="the pool lies on other media",
        source=_BLUESTORE,
    ),
    Effect(
        pattern="targets.*.device",
        cause="media",
        label="device",
        mechanism="it is what serves the I/O",
        source="the target's own path",
    ),
    Effect(
        pattern="targets.*.filesystem",
        cause="filesystem",
        label="filesystem",
        mechanism="its journal and its layout stand before every I/O",
        source="the target's own path",
    ),
    Effect(
        pattern="targets.*.mount_options",
        cause="filesystem",
        label="mount options",
        mechanism="they change how a filesystem journals and flushes",
        source="mount(8)",
    ),
    # Encryption.
    Effect(
        pattern="encryption.wire*",
        cause="wire",
        label="encryption on the wire",
        mechanism="it costs processor time per byte: published for 4k reads about 0, for 4k writes "
        "2 to 5 % and for large I/O 13 to 26 %",
        source=_PUBLISHED_CRYPT,
    ),
    Effect(
        pattern="encryption.at_rest",
        cause="at rest",
        label="encryption at rest",
        mechanism="it costs processor time per byte: published for 4k reads about 10 %, for 4k "
        "writes 17 % and for 4 MiB writes 45 %",
        source=_PUBLISHED_CRYPT,
    ),
    # Software, services, state.
    Effect(
        pattern="software.ceph",
        cause="release",
        label="Ceph release",
        mechanism="releases differ in scheduling, in erasure coding and in BlueStore; which of it "
        "shows cannot be told from one comparison",
        source="release notes",
    ),
    Effect(
        pattern="services.mds",
        cause="mds",
        label="MDS",
        mechanism="data does not pass it; opening, growing a file and its attributes do",
        source="Ceph documentation, CephFS capabilities",
        ops=WRITES,
        cephfs=True,
    ),
    Effect(
        pattern="pools.*.compression",
        cause="compression",
        label="compression",
        mechanism="it costs processor time and saves writing where buffers can be compressed",
        source="Ceph documentation, BlueStore",
    ),
    Effect(
        pattern="capacity.used",
        cause="fill",
        label="capacity used",
        mechanism="a fuller cluster has more metadata than its caches hold, and less free space in "
        "one piece",
        source=_BLUESTORE,
        strong=False,
    ),
    Effect(
        pattern="health.activity",
        cause="repair",
        label="what the cluster did besides",
        mechanism="recovery, backfill and scrubs take part of the disks' time",
        source="Ceph documentation, mClock",
    ),
    Effect(
        pattern="health.osds",
        cause="osds",
        label="OSDs down or out",
        mechanism="fewer OSDs serve, and copies that are missing are not waited for",
        source="src/osd/ReplicatedBackend.cc",
    ),
    Effect(
        pattern="health.flags",
        cause="flags",
        label="flags",
        mechanism="they hold back what a cluster does by itself beside clients' I/O",
        source="Ceph documentation, flags",
        strong=False,
    ),
    Effect(
        pattern="settings.*",
        cause="settings",
        label="settings",
        mechanism="a setting that is not the same may change how daemons queue, cache or schedule",
        source="Ceph documentation, configuration reference",
    ),
    # The load.
    Effect(
        pattern="client.memory",
        cause="client",
        label="memory of the load generator",
        mechanism="it decides what a page cache may hold where I/O is not direct",
        source="methodology: cache-served-reads",
        strong=False,
    ),
    Effect(
        pattern="client.operating_system",
        cause="client",
        label="operating system",
        mechanism="the load generator runs other software",
        source="methodology: unlike with unlike",
        strong=False,
    ),
    Effect(
        pattern="client.*",
        cause="client",
        label="load generator",
        mechanism="the machine that makes the load is part of every latency, and can be its limit",
        source="methodology: client-saturated",
    ),
    Effect(
        pattern="engine.version",
        cause="client",
        label="version of the engine",
        mechanism="another version may submit I/O and count it otherwise",
        source="methodology: unlike with unlike",
        strong=False,
    ),
    Effect(
        pattern="workloads.*",
        cause="workload",
        label="workload",
        mechanism="it is not quite the same work",
        source="methodology: unlike with unlike",
    ),
    Effect(
        pattern="plan.prefill",
        cause="prefill",
        label="prefill",
        mechanism="what was never written is read from nothing, and first written more slowly",
        source="methodology: unwritten-reads",
    ),
    Effect(
        pattern="plan.drop_caches",
        cause="caches",
        label="dropping of caches",
        mechanism="reads may come from a cache on one side",
        source="methodology: cache-served-reads",
        ops=READS,
    ),
    Effect(
        pattern="targets.*.url",
        cause="read policy",
        label="read policy",
        mechanism="it decides which copy a client reads, hence how far it goes",
        source="Ceph documentation, rbd_read_from_replica_policy",
        ops=READS,
        mentions="read_policy=",
    ),
    Effect(
        pattern="targets.*.url",
        cause="features",
        label="features of the image",
        mechanism="an exclusive lock is taken before the first write, and an object map is written "
        "for each object that comes to be",
        source="Ceph documentation, RBD image features",
        ops=WRITES,
        mentions="features=",
        strong=False,
    ),
    Effect(
        pattern="targets.*.kind",
        cause="kind",
        label="kind of storage",
        mechanism="block devices, file systems and objects are reached through clients of their "
        "own, with other locks, caches and queues",
        source="io-paths: CephFS",
    ),
    *KUBERNETES_EFFECTS,
    *LAYER_EFFECTS,
    Effect(
        pattern="targets.*.labels.*",
        cause=LABELS,
        label="label",
        mechanism="the plan says that the targets differ in it",
        source="the plan",
    ),
)


def effects_of(difference: Difference) -> tuple[Effect, ...]:
    """All that a difference can do: the matches of the first pattern, so that a general one stands
    behind the special ones. What one side does not tell may be the same: it does nothing."""
    if NOT_MEASURED in (difference.baseline, difference.candidate):
        return ()
    found: list[Effect] = []
    for effect in EFFECTS:
        if effect.matches(difference) and not any(one.pattern != effect.pattern for one in found):
            found.append(effect)
    return tuple(found)
