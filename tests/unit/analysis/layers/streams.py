"""Archives of streams on ZFS on an image, with counters of every layer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.archive import layout
from leadline.archive.raw import derive
from leadline.archive.reader import Run
from leadline.formats.zfs.stream import read_stream_output
from leadline.inventory.layer import Layer, LayerKind
from leadline.plan.models import Cell
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload
from tests.unit.analysis.layers.layer_archives import lines, machine, stamp, with_stack
from tests.unit.audit.audit_archives import Stored, build

OBJECT = 4 << 20
SECONDS = 10


def zfs(record: int, **facts: str) -> Layer:
    known = {"recordsize_bytes": str(record), "compression": "off", "implementation": "kernel"}
    return Layer(kind=LayerKind.ZFS, name="tank/ours", devices=("loop7",), facts=known | facts)


DEVICE = Layer(
    kind=LayerKind.BLOCK,
    name="loop7",
    devices=("loop7",),
    facts={"type": "loop", "direct_io": "yes", "rotational": "no"},
)
FUSE = Layer(kind=LayerKind.FUSE, name="/run/image", facts={"program": "rbd-fuse"})
IMAGE = Layer(kind=LayerKind.IMAGE, name="rep2/ours", facts={"object_size_bytes": str(OBJECT)})
POOL = Layer(kind=LayerKind.POOL, name="rep2")


def stack(record: int, **facts: str) -> tuple[Layer, ...]:
    return (zfs(record, **facts), DEVICE, FUSE, IMAGE, POOL)


def stream_cell(target: str) -> Cell:
    phase = Phase(
        name="write", pattern=Pattern.WRITE, block_size=1 << 20, iodepth=1, numjobs=1, size=1 << 26
    )
    workload = Workload(
        name="receive", phases=(phase,), engine=EngineChoice.ZFS_STREAM, runtime_s=float(SECONDS)
    )
    return Cell(target=target, workload=workload, level="")


FAR_KEYS = (
    *("bytes", "seconds", "stream_s", "waited_for_sender_s", "held_sender_s"),
    *("waited_for_receiver_s", "starved_receiver_s", "most_buffered_bytes"),
    *("mean_buffered_bytes", "relay_cpu_s"),
)


def stream_record(
    stream_bytes: int,
    *,
    for_receiver_s: float,
    for_sender_s: float,
    for_link_s: float | None = None,
) -> bytes:
    """One stream of ten seconds, begun with the watch, as the engine writes it; `for_link_s` is of
    one to another host."""
    digest = "0" * 64
    stream = {
        "number": 1, "counted": True, "began_at": 1795305600.0, "bytes": stream_bytes,
        "seconds": float(SECONDS), "stream_s": float(SECONDS),
        "waited_for_sender_s": for_sender_s, "held_sender_s": for_receiver_s,
        "waited_for_receiver_s": for_receiver_s, "starved_receiver_s": for_sender_s,
        "most_buffered_bytes": 1 << 20, "mean_buffered_bytes": 1 << 19, "relay_cpu_s": 0.1,
        "send": ["zfs", "send"], "receive": ["zfs", "receive"], "guid": "1", "received_guid": "1",
        "files": [{"path": "a", "bytes": 1, "sent": digest, "received": digest}],
    }  # fmt: skip
    route = {"host": "backup", "dataset": "vault/ours", "via": "ssh"}
    if for_link_s is not None:
        waits = {"waited_for_sender_s": for_link_s, "starved_receiver_s": for_link_s}
        kept = {key: value for key, value in stream.items() if key in FAR_KEYS}
        stream["far"] = {**kept, **waits}
        stream["waited_for_receiver_s"] = for_link_s + for_receiver_s
    request = {
        "name": "write", "size_bytes": stream_bytes, "runtime_s": float(SECONDS),
        "buffer_bytes": 1 << 24, "sample_s": 0.2,
    }  # fmt: skip
    whole = {
        "schema": "leadline/zfs-stream/1",
        "request": request,
        "dataset": "tank/ours",
        "snapshot": "tank/ours@s",
        "streams": [stream],
    } | ({} if for_link_s is None else {"route": route})
    return json.dumps(whole).encode()


def evidence(
    folder: Path,
    *,
    throughput_bps: float,
    size: float,
    latency_s: float,
    device_in_flight: float = 8.0,
    for_receiver_s: float = 7.0,
    for_sender_s: float = 0.2,
    for_link_s: float | None = None,
    copies: int = 2,
) -> None:
    """Counters of a trial that writes so many bytes a second in requests of that size: the image
    has what Little's law leaves in flight, the device more."""
    moved = throughput_bps * SECONDS
    writes = moved / size
    record = stream_record(
        int(moved),
        for_receiver_s=for_receiver_s,
        for_sender_s=for_sender_s,
        for_link_s=for_link_s,
    )
    (folder / "zfs-stream.json").write_bytes(record)
    (folder / layout.DERIVED).write_bytes(layout.encode(derive(read_stream_output(folder))))
    ticks = range(SECONDS + 1)

    def until(second: int, total: float) -> int:
        return round(total * second / SECONDS)

    lines(
        folder,
        layout.RESOURCES,
        [
            machine(
                float(s),
                {
                    "loop7": (
                        *(0, 0, 0),
                        *(until(s, writes), until(s, moved)),
                        until(s, device_in_flight * SECONDS * 1e3),
                    )
                },
            )
            for s in ticks
        ],
    )
    lines(
        folder,
        layout.BLOCK_REQUESTS,
        [
            {
                **stamp(float(s)),
                "device": "loop7",
                "seconds": 0.2,
                "lost": 0,
                "reads": {},
                "writes": {"4096": 40, "8192": 30, "16384": 30},
            }
            for s in (1, 3)
        ],
    )
    lines(
        folder,
        layout.MOUNT_COUNTERS,
        [{**stamp(float(s)), "mount": "/run/image", "kind": "fuse", "waiting": 3} for s in ticks],
    )
    lines(
        folder,
        layout.IMAGE_COUNTERS,
        [
            {
                **stamp(float(s)),
                "image": "rep2/ours",
                "client": "rbd-fuse",
                "counters": {
                    "rd": 0,
                    "rd_bytes": 0,
                    "wr": until(s, writes),
                    "wr_bytes": until(s, moved),
                    "flush": 2 * s,
                    "wr_latency": [until(s, writes), writes * latency_s * s / SECONDS],
                },
            }
            for s in ticks
        ],
    )
    lines(
        folder,
        layout.CEPH_COUNTERS,
        [
            {
                **stamp(float(s)),
                "osds": {
                    str(osd): {
                        "osd.op_w": until(s, writes) // 2,
                        "osd.subop": until(s, writes) // 2 * (copies - 1),
                        "osd.op_in_bytes": until(s, moved) // 2,
                        "osd.op_w_latency": [until(s, writes) // 2, writes / 2 * s / 1e4],
                    }
                    for osd in (0, 1)
                },
                "sizes": {"0": {"op_w": {"8192": until(s, writes)}}},
            }
            for s in (0, SECONDS)
        ],
    )


def stream_run(
    folder: Path, cells: Mapping[str, tuple[Sequence[Layer], Sequence[Mapping[str, Any]]]]
) -> Run:
    """A run of streams: by target its layers and the evidence of each trial."""
    record = {"engine": "zfs stream", "engine_version": "zfs-fuse"}
    run = build(
        folder,
        {
            name: (stream_cell(name), [Stored(output=None, record=record) for _ in trials])
            for name, (_, trials) in cells.items()
        },
    )
    run = with_stack(run, {name: layers for name, (layers, _) in cells.items()})
    given = [one for _, trials in cells.values() for one in trials]
    for trial, one in zip(run.trial_folders, given, strict=True):
        evidence(trial, **one)
    return run
