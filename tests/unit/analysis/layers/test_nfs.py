"""The layer of an NFS mount, on what the watch wrote of a real one (tests/recorded/layers)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from leadline.analysis.layers.model import Basis, Window
from leadline.analysis.layers.sources import nfs_flow
from leadline.formats.watch_records import parse_mount_counters
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op

RECORDED = Path("tests/recorded/layers/nfs42-direct-write/mount-counters.jsonl")
# What fio said of the same trial: 88 direct writes of 256 KiB in 6.135 s, wsize being 64 KiB.
BLOCKS, BLOCK, SECONDS = 88, 256 << 10, 6.135
LAYER = Layer(kind=LayerKind.NFS, name="/mnt/nfs")
TOTALS = Window(basis=Basis.TOTALS, seconds=SECONDS, spans=((0.0, math.inf),), loaded_s=SECONDS)


def test_direct_writes_are_counted_byte_for_byte_and_their_commits_told() -> None:
    samples = parse_mount_counters(RECORDED.read_bytes())
    found = nfs_flow(LAYER, samples, {Op.WRITE: TOTALS, Op.READ: TOTALS})
    assert set(found.flows) == {Op.WRITE}
    flow = found.flows[Op.WRITE]
    assert flow.bandwidth.value == pytest.approx(BLOCKS * BLOCK / SECONDS)
    assert flow.rate.value == pytest.approx(4 * BLOCKS / SECONDS)
    assert flow.mean_size_bytes == pytest.approx(BLOCK / 4)
    assert flow.latency.value is not None
    assert flow.in_flight.value == pytest.approx(flow.rate.value * flow.latency.value)
    # The client asked the server to keep each block, which WRITE alone does not tell.
    (commits,) = [note for note in found.notes if note.startswith("COMMIT")]
    assert commits.startswith(f"COMMIT: {BLOCKS}, 104 ms each")
