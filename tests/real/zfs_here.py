"""ZFS on this machine as tests see it, and what a run could leave of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from leadline.connect.programs import find
from tests.real.conftest import sh


def answers(program: str, *arguments: object) -> bool:
    command = [str(find(program)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True).returncode == 0


def pools() -> list[str]:
    listed = sh(find("zpool"), "list", "-H", "-o", "name").splitlines()
    return [name for name in listed if " " not in name]


def tokens(tmp_path: Path) -> list[str]:
    """What all that the runs of a test made is named by."""
    lines = [
        line
        for journal in (tmp_path / "runs").glob("*/created.jsonl")
        for line in journal.read_text().splitlines()
    ]
    return sorted({json.loads(line)["token"] for line in lines})


def left_here(tmp_path: Path) -> list[str]:
    """What the runs of a test left on this machine: folders, mounts, loop devices, daemons,
    pools. Others may be at work here too."""
    places = [
        *Path("/proc").glob("[0-9]*/cmdline"),
        *Path("/sys/block").glob("loop*/loop/backing*"),
    ]
    told = [str(path) for path in Path("/run").iterdir()]
    told += Path("/proc/self/mounts").read_text().splitlines()
    for file in places:
        try:
            told.append(file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    if answers("zpool", "list"):
        told += pools()
    return [item for item in told for token in tokens(tmp_path) if token in item]
