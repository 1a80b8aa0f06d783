"""Archives with layers: recorded results of fio, and counters that are made to fit them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Stacks, TargetStack
from leadline.inventory.layer import Layer, LayerKind
from leadline.plan.models import Cell
from tests.unit.audit.audit_archives import Stored, build, cell

# The recorded read: 310,360 reads of 4 KiB in 4.001 s, none of them in a ramp.
READS, READ_BYTES, SECONDS = 310_360, 1_271_296_000, 4.001
SECTOR = 512

EXT4 = Layer(kind=LayerKind.FILESYSTEM, name="ext4", facts={"mount_point": "/mnt/disk"})
LOOP = Layer(kind=LayerKind.BLOCK, name="loop7", devices=("loop7",), facts={"type": "loop"})


def with_stack(run: Run, stacks: Mapping[str, Sequence[Layer]]) -> Run:
    folder = run.path / layout.INVENTORY
    folder.mkdir(exist_ok=True)
    kept = Stacks(
        stacks=tuple(
            TargetStack(target=name, layers=tuple(layers)) for name, layers in stacks.items()
        )
    )
    (run.path / layout.stacks_file("s")).write_bytes(layout.encode(kept))
    return Run(run.path)


def lines(folder: Path, name: str, entries: Iterable[Mapping[str, Any]]) -> None:
    (folder / name).write_text("".join(json.dumps(one) + "\n" for one in entries))


def stamp(elapsed_s: float) -> dict[str, Any]:
    return {"at": f"2026-11-22T00:00:{elapsed_s:06.3f}+00:00", "elapsed_s": elapsed_s}


def machine(elapsed_s: float, disks: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """A line of resources.jsonl. Of each disk: reads, bytes read, ms, writes, bytes written, ms."""
    counted = {
        name: [
            *(int(reads), 0, int(read_bytes) // SECTOR, int(read_ms)),
            *(int(writes), 0, int(write_bytes) // SECTOR, int(write_ms)),
            *(0, int(read_ms), int(read_ms) + int(write_ms)),
        ]
        for name, (reads, read_bytes, read_ms, writes, write_bytes, write_ms) in disks.items()
    }
    return {
        **stamp(elapsed_s),
        "machine": "here",
        "roles": ["client", "storage"],
        "clock_s": 1000 + elapsed_s,
        "cores": 2,
        "hz": 100,
        "cpu": [100, 0, 0, 100, 0, 0, 0, 0],
        "disks": counted,
        "interfaces": {},
    }


def steady(
    device: str, seconds: int, totals: Sequence[float], *, first: int = 1_000
) -> list[dict[str, Any]]:
    """Samples each second of a disk that does its `totals` evenly over those seconds."""
    return [
        machine(float(second), {device: [first + total * second / seconds for total in totals]})
        for second in range(seconds + 1)
    ]


def disk_run(
    folder: Path,
    totals: Sequence[float] | None = None,
    *,
    one: Cell | None = None,
    trials: int = 1,
    layers: Sequence[Layer] = (EXT4, LOOP),
    seconds: int = 5,
) -> Run:
    """The recorded reads on ext4 on loop7, whose counters are `totals` (reads, bytes, ms, writes,
    bytes, ms) in every trial; without `totals` nothing was sampled."""
    run = build(folder, {"a": (one or cell(), [Stored() for _ in range(trials)])})
    run = with_stack(run, {"disk": layers})
    for trial in run.trial_folders:
        if totals is not None:
            lines(trial, layout.RESOURCES, steady("loop7", seconds, totals))
    return run
