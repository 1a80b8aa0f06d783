"""The configuration of a lab's cluster, and where things lie in a lab's folder. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leadline.lab.topology import Place
from leadline.plan.lab_description import LabDescription, Store

CONF = "ceph.conf"
MON = "mon.a"
MGR = "mgr.x"
MDS = "mds.a"
CLIENT = "client.admin"
# Of an AF_UNIX address (sun_path, with its closing NUL).
SOCKET_PATH_BYTES = 107


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Where things lie in a lab's folder. What must be in memory is in `memory`."""

    folder: Path
    memory: Path

    @property
    def conf(self) -> Path:
        return self.folder / CONF

    @property
    def cephfs(self) -> Path:
        return self.folder / "cephfs"

    @property
    def network(self) -> Path:
        return self.folder / "network"

    @property
    def modules(self) -> Path:
        return self.folder / "mgr-modules"

    @property
    def monmap(self) -> Path:
        return self.folder / "monmap"

    def of(self, daemon: str) -> Path:
        """What a daemon keeps (`mon.a`, `osd.0`)."""
        return self.folder / "daemons" / daemon

    def log(self, daemon: str) -> Path:
        return self.folder / "log" / f"{daemon}.log"

    def said(self, daemon: str) -> Path:
        """What a daemon prints besides its log."""
        return self.folder / "log" / f"{daemon}.out"

    def keyring(self, entity: str) -> Path:
        return self.folder / "keyrings" / entity

    def socket(self, daemon: str) -> Path:
        return self.folder / "run" / f"{daemon}.asok"

    @property
    def folders(self) -> tuple[Path, ...]:
        """What must be there before the first daemon is."""
        return tuple(
            self.folder / name
            for name in ("daemons", "log", "keyrings", "run", "crash", "network", "mgr-modules")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The monitor's address and port, and the address of each site."""

    mon: str
    mon_port: int
    sites: Mapping[str, str]

    @property
    def mon_host(self) -> str:
        return f"[v2:{self.mon}:{self.mon_port}]"


# What a throw-away cluster on one small machine wants otherwise than a real one. Where a setting
# could change what is measured, it is one that docs/internals/lab.md tells of.
_GLOBAL = {
    "ms_bind_msgr1": "false",
    "ms_bind_msgr2": "true",
    "ms_bind_ipv6": "false",
    "ms_async_op_threads": "2",
    "osd_pool_default_pg_autoscale_mode": "off",
    "osd_crush_chooseleaf_type": "0",
    "mon_max_pg_per_osd": "1000",
    "err_to_stderr": "true",
    "log_to_stderr": "false",
}
_MON = {
    "mon_allow_pool_delete": "true",
    "mon_allow_pool_size_one": "true",
    "mon_data_avail_warn": "2",
    "mon_data_avail_crit": "1",
    "mon_warn_on_insecure_global_id_reclaim": "false",
    "mon_warn_on_insecure_global_id_reclaim_allowed": "false",
    "auth_allow_insecure_global_id_reclaim": "false",
    "mon_debug_no_require_bluestore_for_ec_overwrites": "true",
    "mon_osd_crush_smoke_test": "false",
    "mon_cluster_log_to_syslog": "false",
    "mgr_initial_modules": "",
    # One second where a cluster of thousands would take five: nobody waits for it.
    "paxos_propose_interval": "0.05",
    "paxos_min_wait": "0.01",
    "mon_tick_interval": "1",
    "mon_mgr_digest_period": "1",
}
_MGR = {
    "mgr_stats_period": "1",
    "mgr_tick_period": "1",
}
_OSD = {
    "osd_crush_update_on_start": "true",
    "osd_class_update_on_start": "true",
    "osd_op_num_shards": "2",
    "osd_op_num_threads_per_shard": "1",
    # Files look like rotating disks to the kernel of a virtual machine; the pauses that spare
    # such disks would only lengthen recovery and deletion.
    "osd_recovery_sleep_hdd": "0",
    "osd_delete_sleep_hdd": "0",
    "osd_snap_trim_sleep_hdd": "0",
    "osd_scrub_begin_hour": "0",
    "osd_scrub_load_threshold": "0.01",
    # Debian's ceph-osd has no tcmalloc, so osd_memory_target has no effect: bound the cache.
    "bluestore_cache_autotune": "false",
    "bluestore_cache_size": str(64 << 20),
    "bluestore_fsck_on_mkfs": "false",
    "bluestore_block_create": "true",
    "bluestore_block_preallocate_file": "false",
    "bluestore_rocksdb_options": (
        "compression=kNoCompression,max_write_buffer_number=4,"
        "min_write_buffer_number_to_merge=1,recycle_log_file_num=4,"
        "write_buffer_size=16777216,writable_file_max_buffer_size=0,"
        "compaction_readahead_size=2097152,max_background_compactions=2,"
        # Else the log of a small store grows until the store is full.
        "max_total_wal_size=67108864"
    ),
}
_MDS = {"mds_beacon_interval": "1", "mds_cache_memory_limit": str(128 << 20)}


def render(
    *,
    fsid: str,
    description: LabDescription,
    paths: Paths,
    addresses: Addresses,
    places: tuple[Place, ...],
) -> str:
    """ceph.conf of the lab, for its daemons and for its clients alike."""
    sections = {
        "global": {
            "fsid": fsid,
            "mon_host": addresses.mon_host,
            "mon_initial_members": MON.partition(".")[2],
            **_authentication(description),
            **_GLOBAL,
            "run_dir": str(paths.folder / "run"),
            "crash_dir": str(paths.folder / "crash"),
            "admin_socket": str(paths.socket("$name")),
            "log_file": str(paths.log("$name")),
        },
        "mon": {
            **_MON,
            "mon_data": str(paths.of(MON)),
            "mon_cluster_log_file": str(paths.log("cluster")),
            "keyring": str(paths.keyring(MON)),
        },
        "mgr": {
            **_MGR,
            "mgr_data": str(paths.of(MGR)),
            "mgr_module_path": str(paths.modules),
            "public_addr": addresses.mon,
            "keyring": str(paths.keyring(MGR)),
        },
        "mds": {
            **_MDS,
            "mds_data": str(paths.of(MDS)),
            "public_addr": addresses.mon,
            "keyring": str(paths.keyring(MDS)),
        },
        "osd": {
            **_OSD,
            "osd_data": str(paths.of("osd.$id")),
            "keyring": str(paths.keyring("$name")),
            **_store(description),
        },
        **{f"osd.{place.osd}": _osd(place, description, paths, addresses) for place in places},
        # A client's own log and socket would be made wherever it is started.
        "client": {
            "log_file": "",
            "admin_socket": "",
            "keyring": str(paths.keyring("$name")),
        },
    }
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())
        for name, settings in sections.items()
    )


def _osd(
    place: Place, description: LabDescription, paths: Paths, addresses: Addresses
) -> dict[str, str]:
    address = addresses.sites[place.site]
    settings = {
        "public_addr": address,
        "cluster_addr": address,
        "crush_location": place.crush_location,
    }
    if description.store is Store.BLUESTORE_IN_MEMORY:
        settings["bluestore_block_path"] = str(paths.memory / f"osd.{place.osd}")
    return settings


def _authentication(description: LabDescription) -> dict[str, str]:
    kind = "cephx" if description.authentication else "none"
    settings = {f"auth_{which}_required": kind for which in ("cluster", "service", "client")}
    if description.encryption:
        for which in ("cluster", "service", "client", "mon_cluster", "mon_service", "mon_client"):
            settings[f"ms_{which}_mode"] = "secure"
    return settings


def _store(description: LabDescription) -> dict[str, str]:
    size = str(description.osd_size_bytes)
    if description.store is Store.MEMSTORE:
        return {"osd_objectstore": "memstore", "memstore_device_bytes": size}
    return {"osd_objectstore": "bluestore", "bluestore_block_size": size}
