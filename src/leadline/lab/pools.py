"""The commands that give a lab's cluster its tree, rules, pools and file system. Pure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadline.lab.conf import CLIENT, ROOT, Paths, Place
from leadline.plan.lab import LabDescription, LabPool, Topology

FILESYSTEM = "cephfs"
METADATA_POOL = "cephfs-metadata"
EC_PROFILE = "ec-2-1"
_COPIES = {LabPool.REP3: 3, LabPool.REP2: 2, LabPool.CEPHFS_REP3: 3, LabPool.CEPHFS_REP2: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A monitor's command: what stands behind `ceph`, and its arguments by name."""

    prefix: str
    arguments: Mapping[str, object] = field(default_factory=dict)


def rule_name(description: LabDescription) -> str:
    """The rule of the replicated pools: `rep_zone`, `rep_rack`, `rep_host`."""
    return f"rep_{description.topology.failure_domain}"


def metadata_pool(pool: LabPool) -> str | None:
    """Where the images (or files) of an RBD data pool (or CephFS pool) have their metadata; None
    for a pool that needs no other."""
    if pool is LabPool.EC_2_1:
        return LabPool.REP3.value
    return METADATA_POOL if pool.in_filesystem else None


def tree_commands(places: tuple[Place, ...], weight: float) -> Iterator[Command]:
    """Put each OSD at its place, whose ancestors are made on the way. Ceph's own `default` root
    would stay in the tree, empty, and goes with its rule."""
    for place in places:
        yield Command(
            prefix="osd crush add",
            arguments={
                "id": place.osd,
                "weight": weight,
                "args": [f"{kind}={name}" for kind, name in place.ancestors],
            },
        )
    yield Command(prefix="osd crush rule rm", arguments={"name": "replicated_rule"})
    yield Command(prefix="osd crush remove", arguments={"name": "default"})


def pool_commands(description: LabDescription) -> Iterator[Command]:
    """Rules, pools and the file system, in an order in which each has what it needs."""
    domain = description.topology.failure_domain
    yield Command(
        prefix="osd crush rule create-replicated",
        arguments={"name": rule_name(description), "root": ROOT, "type": domain},
    )
    for pool in description.pools:
        if pool is LabPool.EC_2_1:
            yield from _erasure_coded(pool, description)
        elif not pool.in_filesystem:
            yield from _replicated(pool.value, _COPIES[pool], description)
            yield _application(pool)
    if description.filesystem:
        yield from _replicated(METADATA_POOL, 3, description)
    data = _data_pools(description)
    for pool in data:
        yield from _replicated(pool.value, _COPIES[pool], description)
    if data:
        yield from _filesystem(data)


def _filesystem(data: Sequence[LabPool]) -> Iterator[Command]:
    yield Command(
        prefix="fs new",
        arguments={"fs_name": FILESYSTEM, "metadata": METADATA_POOL, "data": data[0].value},
    )
    for pool in data[1:]:
        yield Command(
            prefix="fs add_data_pool", arguments={"fs_name": FILESYSTEM, "pool": pool.value}
        )
    yield Command(
        prefix="fs set",
        arguments={"fs_name": FILESYSTEM, "var": "standby_count_wanted", "val": "0"},
    )


def placement_groups(pool: LabPool | None, description: LabDescription) -> int:
    """Of a pool (None: the metadata of CephFS): enough that OSDs have about a hundred each, few
    enough that they are made in a second. Hosts of any number get more, since the one with the most
    would else decide what all can do: of 32 over five, one led nine where the mean is six."""
    wide = 2 if description.osds > 6 else 1
    if description.topology is Topology.HOSTS:
        wide = 4
    return wide * (16 if pool is None or pool.in_filesystem else 32)


def pool_names(description: LabDescription) -> tuple[str, ...]:
    """All pools there will be, the metadata pool of CephFS too."""
    names = tuple(pool.value for pool in description.pools)
    return (*names, METADATA_POOL) if description.filesystem else names


def placement_groups_of_all(description: LabDescription) -> int:
    pools: tuple[LabPool | None, ...] = description.pools
    if description.filesystem:
        pools = (*pools, None)
    return sum(placement_groups(pool, description) for pool in pools)


def _replicated(name: str, copies: int, description: LabDescription) -> Iterator[Command]:
    known = {pool.value: pool for pool in LabPool}
    groups = placement_groups(known.get(name), description)
    yield Command(
        prefix="osd pool create",
        arguments={
            "pool": name,
            "pg_num": groups,
            "pgp_num": groups,
            "pool_type": "replicated",
            "rule": rule_name(description),
            "size": copies,
        },
    )
    # Of two copies, one must do: else losing one zone would stop the pool, which is what people
    # who choose two copies do not have in mind.
    yield _set(name, "min_size", "2" if copies > 2 else "1")


def _erasure_coded(pool: LabPool, description: LabDescription) -> Iterator[Command]:
    yield Command(
        prefix="osd erasure-code-profile set",
        arguments={
            "name": EC_PROFILE,
            "profile": [
                "plugin=jerasure",
                "technique=reed_sol_van",
                "k=2",
                "m=1",
                f"crush-root={ROOT}",
                f"crush-failure-domain={description.topology.failure_domain}",
            ],
        },
    )
    groups = placement_groups(pool, description)
    yield Command(
        prefix="osd pool create",
        arguments={
            "pool": pool.value,
            "pg_num": groups,
            "pgp_num": groups,
            "pool_type": "erasure",
            "erasure_code_profile": EC_PROFILE,
        },
    )
    yield _set(pool.value, "allow_ec_overwrites", "true")
    # k: else losing one zone of three would stop the pool.
    yield _set(pool.value, "min_size", "2")
    yield _application(pool)


def _data_pools(description: LabDescription) -> list[LabPool]:
    """Those of the file system, its default one first."""
    data = [pool for pool in description.pools if pool.in_filesystem]
    return sorted(data, key=lambda pool: pool is not LabPool.CEPHFS_REP3)


def _set(pool: str, key: str, value: str) -> Command:
    return Command(prefix="osd pool set", arguments={"pool": pool, "var": key, "val": value})


def _application(pool: LabPool) -> Command:
    return Command(
        prefix="osd pool application enable", arguments={"pool": pool.value, "app": "rbd"}
    )


# The mount of a lab's CephFS, and mounts below a lab's folder in general.

NAME = "ceph-fuse"
FSTYPE = "fuse.ceph-fuse"
_UNMOUNT_S = 10.0


def mount_command(paths: Paths) -> list[str]:
    """ceph-fuse in the foreground. Its own exit would leave a dead mount, so it is watched."""
    return [
        *("ceph-fuse", "-f", "-c", str(paths.conf), "--id", CLIENT.partition(".")[2]),
        *("--client_fs", FILESYSTEM, "--client_mountpoint", "/"),
        *("--log-file", str(paths.log(NAME)), "--admin-socket", str(paths.socket(NAME))),
        str(paths.cephfs),
    ]


def lay_out(paths: Paths, description: LabDescription) -> None:
    """A directory for each data pool, whose files go to that pool. Raises OSError."""
    for pool in description.pools:
        if pool.in_filesystem:
            folder = paths.cephfs / pool.value
            folder.mkdir(exist_ok=True)
            os.setxattr(folder, "ceph.dir.layout.pool", pool.value.encode())


def mounts_below(folder: Path) -> list[tuple[Path, str]]:
    """Mount points in `folder` with their types, the innermost first. Asks the kernel and nothing
    else: a mount whose server is dead would make us wait."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda item: chr(int(item[1], 8)), before.split()[4]))
        if point.is_relative_to(folder):
            found.append((point, after.split()[0]))
    return found[::-1]


def is_mounted(point: Path) -> bool:
    return any(where == point and kind == FSTYPE for where, kind in mounts_below(point))


def unmount_all(folder: Path) -> None:
    """Detach whatever is mounted in `folder`, at once and whoever uses it. What cannot be detached
    stays; `mounts_below` tells."""
    for point, _ in mounts_below(folder):
        if os.geteuid() == 0:
            command = ["umount", "--lazy", "--no-canonicalize", str(point)]
        else:
            program = shutil.which("fusermount3") or "fusermount"
            command = [program, "-u", "-z", str(point)]
        try:
            subprocess.run(command, capture_output=True, timeout=_UNMOUNT_S)
        except (OSError, subprocess.TimeoutExpired):
            continue
