"""The recorded runs, byte for byte what fio and Leadline wrote: one compressed tree each, and one
for all small ones, which are alike and take a tenth of the space together."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"
MADE = "made.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeRun:
    """A run as it lies in a folder: what to audit of it, and the share of the processor that other
    work took while it was made."""

    name: str
    audited: tuple[Path, ...]
    others_share: float


def pack(folders: Sequence[Path], name: str) -> None:
    """Keep folders of runs as the archive `name`. Other runs of the archive are kept."""
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"{name}.tar.xz"
    with tempfile.TemporaryDirectory() as before:
        kept = Path(before)
        if path.exists():
            _extract(path, kept)
        given = {folder.name: folder for folder in [*kept.iterdir(), *folders]}
        with tarfile.open(path, "w:xz", preset=9) as packed:
            for folder in sorted(given):
                packed.add(given[folder], arcname=folder, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whose file it was and when it was made say nothing, and would differ every time."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def unpack(folder: Path) -> None:
    """All recorded runs into `folder`, one folder each."""
    for path in sorted(RECORDED.glob("*.tar.xz")):
        _extract(path, folder)


def _extract(path: Path, folder: Path) -> None:
    with tarfile.open(path) as packed:
        # Debian 12's Python 3.11.2 has no filters; a later one takes this one, and that ignores
        # the attribute.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)


def made_run(folder: Path) -> MadeRun:
    made = json.loads((folder / MADE).read_text())
    return MadeRun(
        name=made["name"],
        audited=tuple(folder / name for name in made["audited"]),
        others_share=made["load"]["others_share"],
    )
