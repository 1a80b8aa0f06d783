"""Stand-ins for Ceph's programs, and the jobs that are given to them."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.connect.ceph import CephAccess
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload

ACCESS = CephAccess(conf=Path("/lab/ceph.conf"), name="bench", namespace=Path("/run/netns/z1"))
NEAR = CephAccess(conf=Path("/lab/ceph.conf"))

Install = Callable[[str, str], None]


def workload(
    *patterns: Pattern,
    engine: EngineChoice,
    block_size: int = 4096,
    numjobs: int = 1,
    fsync: int = 0,
    size: int = 64 << 20,
    runtime_s: float = 3.0,
    ramp_s: float = 0.0,
    read_share: int | None = None,
) -> Workload:
    phases = tuple(
        Phase(
            name=f"phase-{pattern.value}",
            pattern=pattern,
            block_size=block_size,
            iodepth=8,
            numjobs=numjobs,
            size=size,
            fsync=fsync,
            read_share=read_share,
        )
        for pattern in patterns
    )
    return Workload(name="it", engine=engine, phases=phases, runtime_s=runtime_s, ramp_s=ramp_s)


def installer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts Python programs first in PATH."""
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")

    def install(name: str, code: str) -> None:
        path = folder / name
        # Without the packages of an environment, which take longer to find than most of these run.
        path.write_text(f"#!{sys.executable} -IS\n{code}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return install
