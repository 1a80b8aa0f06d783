"""Commands that create the CRUSH tree, rules, pools and file system of a lab, and its mount."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadline.environment import CEPH, child_environment
from leadline.lab.conf import CLIENT, ROOT, Paths, Place
from leadline.plan.lab import LabDescription, LabPool, Topology

FILESYSTEM = "cephfs"
METADATA_POOL = "cephfs-metadata"
EC_PROFILE = "ec-2-1"
_COPIES = {LabPool.REP3: 3, LabPool.REP2: 2, LabPool.CEPHFS_REP3: 3, LabPool.CEPHFS_REP2: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A monitor command: its words, and its arguments by name."""

    prefix: str
    arguments: Mapping[str, object] = field(default_factory=dict)


def _command(prefix: str, /, **arguments: object) -> Command:
    return Command(prefix=prefix, arguments=arguments)


def rule_name(description: LabDescription) -> str:
    """Return the rule of the replicated pools: `rep_zone`, `rep_rack`, `rep_host`."""
    return f"rep_{description.topology.failure_domain}"


def metadata_pool(pool: LabPool) -> str | None:
    """Return the pool for the metadata of an RBD data pool or a CephFS pool; None where it is the
    same."""
    if pool is LabPool.EC_2_1:
        return LabPool.REP3.value
    return METADATA_POOL if pool.in_filesystem else None


def tree_commands(places: tuple[Place, ...], weight: float) -> Iterator[Command]:
    """Yield the commands that place each OSD with its ancestors, and remove Ceph's empty `default`
    root with its rule."""
    for place in places:
        ancestors = [f"{kind}={name}" for kind, name in place.ancestors]
        yield _command("osd crush add", id=place.osd, weight=weight, args=ancestors)
    yield _command("osd crush rule rm", name="replicated_rule")
    yield _command("osd crush remove", name="default")


def pool_commands(description: LabDescription) -> Iterator[Command]:
    """Yield the commands for rules, pools and the file system, in order of dependency."""
    domain, rule = description.topology.failure_domain, rule_name(description)
    yield _command("osd crush rule create-replicated", name=rule, root=ROOT, type=domain)
    for pool in description.pools:
        if pool is LabPool.EC_2_1:
            yield from _erasure_coded(pool, description)
        elif not pool.in_filesystem:
            yield from _replicated(pool.value, _COPIES[pool], description)
            yield _application(pool)
    if description.filesystem:
        yield from _replicated(METADATA_POOL, 3, description)
    data = [pool for pool in description.pools if pool.in_filesystem]
    # The default data pool first.
    data.sort(key=lambda pool: pool is not LabPool.CEPHFS_REP3)
    for pool in data:
        yield from _replicated(pool.value, _COPIES[pool], description)
    if data:
        yield from _filesystem(data)


def _filesystem(data: Sequence[LabPool]) -> Iterator[Command]:
    yield _command("fs new", fs_name=FILESYSTEM, metadata=METADATA_POOL, data=data[0].value)
    for pool in data[1:]:
        yield _command("fs add_data_pool", fs_name=FILESYSTEM, pool=pool.value)
    yield _command("fs set", fs_name=FILESYSTEM, var="standby_count_wanted", val="0")


def placement_groups(pool: LabPool | None, description: LabDescription) -> int:
    """Return the placement groups of a pool (None: the metadata of CephFS): about a hundred per
    OSD, created within a second. The topology `hosts` gets more for even load: of 32 over five
    hosts, one host was primary of nine where the mean is six."""
    wide = 2 if description.osds > 6 else 1
    if description.topology is Topology.HOSTS:
        wide = 4
    return wide * (16 if pool is None or pool.in_filesystem else 32)


def placement_groups_of_all(description: LabDescription) -> int:
    pools: tuple[LabPool | None, ...] = description.pools
    if description.filesystem:
        pools = (*pools, None)
    return sum(placement_groups(pool, description) for pool in pools)


def _replicated(name: str, copies: int, description: LabDescription) -> Iterator[Command]:
    known = {pool.value: pool for pool in LabPool}
    groups = placement_groups(known.get(name), description)
    yield _command(
        "osd pool create",
        pool=name,
        pg_num=groups,
        pgp_num=groups,
        pool_type="replicated",
        rule=rule_name(description),
        size=copies,
    )
    # One of two copies suffices: otherwise the loss of a zone would stop the pool.
    yield _set(name, "min_size", "2" if copies > 2 else "1")


def _erasure_coded(pool: LabPool, description: LabDescription) -> Iterator[Command]:
    profile = [
        *("plugin=jerasure", "technique=reed_sol_van", "k=2", "m=1", f"crush-root={ROOT}"),
        f"crush-failure-domain={description.topology.failure_domain}",
    ]
    yield _command("osd erasure-code-profile set", name=EC_PROFILE, profile=profile)
    groups = placement_groups(pool, description)
    yield _command(
        "osd pool create",
        pool=pool.value,
        pg_num=groups,
        pgp_num=groups,
        pool_type="erasure",
        erasure_code_profile=EC_PROFILE,
    )
    yield _set(pool.value, "allow_ec_overwrites", "true")
    # k: otherwise the loss of one zone of three would stop the pool.
    yield _set(pool.value, "min_size", "2")
    yield _application(pool)


def _set(pool: str, key: str, value: str) -> Command:
    return _command("osd pool set", pool=pool, var=key, val=value)


def _application(pool: LabPool) -> Command:
    return _command("osd pool application enable", pool=pool.value, app="rbd")


MOUNT_NAME = "ceph-fuse"
FSTYPE = "fuse.ceph-fuse"
_UNMOUNT_S = 10.0


def mount_command(paths: Paths) -> list[str]:
    """Return ceph-fuse in the foreground: its end would leave a dead mount, so it is watched."""
    return [
        *("ceph-fuse", "-f", "-c", str(paths.conf), "--id", CLIENT.partition(".")[2]),
        *("--client_fs", FILESYSTEM, "--client_mountpoint", "/"),
        *("--log-file", str(paths.log(MOUNT_NAME))),
        *("--admin-socket", str(paths.socket(MOUNT_NAME))),
        str(paths.cephfs),
    ]


def create_directories(paths: Paths, description: LabDescription) -> None:
    """Create a directory for each data pool, whose files go to that pool. Raises OSError."""
    for pool in description.pools:
        if pool.in_filesystem:
            folder = paths.cephfs / pool.value
            folder.mkdir(exist_ok=True)
            os.setxattr(folder, "ceph.dir.layout.pool", pool.value.encode())


def mounts_below(folder: Path) -> list[tuple[Path, str]]:
    """Return the mount points in `folder` with their types, innermost first. Reads only the
    kernel's table: a mount with a dead server would block."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = Path(
            re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
        )
        if point.is_relative_to(folder):
            found.append((point, after.split()[0]))
    return found[::-1]


def is_mounted(point: Path) -> bool:
    return any(where == point and kind == FSTYPE for where, kind in mounts_below(point))


def unmount_all(folder: Path) -> None:
    """Detach every mount in `folder` at once, also one in use. `mounts_below` lists what
    remains."""
    for point, _ in mounts_below(folder):
        if os.geteuid() == 0:
            command = ["umount", "--lazy", "--no-canonicalize", str(point)]
        else:
            program = shutil.which("fusermount3") or "fusermount"
            command = [program, "-u", "-z", str(point)]
        try:
            subprocess.run(
                command, capture_output=True, timeout=_UNMOUNT_S, env=child_environment(*CEPH)
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
