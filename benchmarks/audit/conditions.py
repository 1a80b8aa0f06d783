"""What real runs are made bad with: limits of a cgroup, neighbours, a filesystem with no room.

Everything made here is removed again on every way out, and only processes started here are ended.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.audit.bench import until

_CGROUPS = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How busy the machine was while a run was made. `others_share` is the processor time of all
    that is not the run's own, of all cores (1.0 = every core)."""

    load_before: float
    load_after: float
    cores: int
    others_share: float

    def as_json(self) -> dict[str, float]:
        return {key: round(value, 3) for key, value in asdict(self).items()}


class LoadWatch:
    """Measures a `Load` from its making to `seen()`."""

    def __init__(self) -> None:
        self._before = os.getloadavg()[0]
        self._ticks = _processor_ticks()
        self._own = _children_s()

    def seen(self) -> Load:
        busy, total = (
            now - then for now, then in zip(_processor_ticks(), self._ticks, strict=True)
        )
        own = (_children_s() - self._own) * os.sysconf("SC_CLK_TCK")
        return Load(
            load_before=self._before,
            load_after=os.getloadavg()[0],
            cores=os.cpu_count() or 1,
            others_share=max(0.0, busy - own) / max(1, total),
        )


def _processor_ticks() -> tuple[int, int]:
    """Busy and all ticks of all cores since boot; stolen time is neither."""
    fields = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    idle = fields[3] + fields[4]
    return sum(fields[:7]) - idle, sum(fields[:8])


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Limits:
    """A pair of cgroups (version 1: cpu and blkio) whose limits may change while they hold."""

    def __init__(self, name: str) -> None:
        self._cpu = _CGROUPS / "cpu" / name
        self._disk = _CGROUPS / "blkio" / name

    def command(self, command: list[str]) -> list[str]:
        """The command, with itself and all its children inside."""
        enter = "".join(f"echo $$ > {group}/cgroup.procs; " for group in (self._cpu, self._disk))
        return ["sh", "-c", f'{enter}exec "$@"', "sh", *command]

    def cpu(self, cores: float) -> None:
        (self._cpu / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (self._cpu / "cpu.cfs_quota_us").write_text(str(round(cores * _PERIOD_US)))

    def disk(self, device: str, iops: int) -> None:
        """At most `iops` reads and as many writes a second on `device` (MAJOR:MINOR)."""
        for direction in ("read", "write"):
            self.throttle(device, f"{direction}_iops", iops)

    def throttle(self, device: str, what: str, most: int) -> None:
        """At most that many `read_iops`, `write_iops`, `read_bps` or `write_bps` on `device`."""
        (self._disk / f"blkio.throttle.{what}_device").write_text(f"{device} {most}")

    def make(self) -> None:
        for group in (self._cpu, self._disk):
            if not group.parent.is_dir():
                raise SystemExit(f"{group.parent} is missing: this run needs cgroups of version 1")
            group.mkdir()

    def remove(self) -> None:
        for group in (self._cpu, self._disk):
            group.rmdir()


@contextmanager
def limits() -> Iterator[Limits]:
    made = Limits(f"leadline-audit-{os.getpid()}")
    made.make()
    try:
        yield made
    finally:
        made.remove()


def disk_of(folder: Path) -> str:
    """MAJOR:MINOR of the whole disk below a folder; blkio limits no partition."""
    number = folder.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    whole = device.parent if (device / "partition").is_file() else device
    return (whole / "dev").read_text().strip()


@contextmanager
def neighbours(number: int) -> Iterator[None]:
    """Processes that do nothing but use a core each."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


@contextmanager
def small_filesystem(size: str) -> Iterator[Path]:
    """A tmpfs of its own, which is full after `size`."""
    folder = Path(tempfile.mkdtemp(prefix="leadline-audit-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


@contextmanager
def loop_device(backing: Path) -> Iterator[str]:
    """A block device over a file."""
    made = subprocess.run(
        ["losetup", "--find", "--show", backing], check=True, capture_output=True, text=True
    )
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextmanager
def ext4_on_loop(folder: Path, size: str) -> Iterator[Path]:
    """A file system on a loop device over a file in `folder`, mounted."""
    backing, mounted = folder / "backing", folder / "mounted"
    mounted.mkdir()
    subprocess.run(["truncate", "-s", size, backing], check=True)
    subprocess.run(["mkfs.ext4", "-q", backing], check=True)
    with loop_device(backing) as device:
        subprocess.run(["mount", device, mounted], check=True)
        try:
            yield mounted
        finally:
            subprocess.run(["umount", mounted], check=True)


@contextmanager
def zfs_on_loop(folder: Path, size: str, **properties: str) -> Iterator[Path]:
    """A pool of ZFS on a loop device over a file in `folder`, mounted. ZFS must be there: the
    kernel's, or a zfs-fuse that runs."""
    backing, mounted = folder / "backing", folder / "mounted"
    subprocess.run(["truncate", "-s", size, backing], check=True)
    name = f"leadlineaudit{os.getpid()}"
    options = [word for key, value in properties.items() for word in ("-O", f"{key}={value}")]
    with loop_device(backing) as device:
        subprocess.run(
            ["zpool", "create", "-o", "cachefile=none", *options, "-m", mounted, name, device],
            check=True,
        )
        try:
            yield mounted
        finally:
            # A pool is busy for a moment after its last file was closed.
            until(lambda: subprocess.run(["zpool", "destroy", name], check=False).returncode == 0)


@contextmanager
def fio_servers(ports: tuple[int, ...], folder: Path) -> Iterator[None]:
    """`fio --server` on the loopback, one for each port."""
    started = [
        subprocess.Popen(
            ["fio", f"--server=127.0.0.1,{port}"], cwd=folder, stdout=subprocess.DEVNULL
        )
        for port in ports
    ]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()
