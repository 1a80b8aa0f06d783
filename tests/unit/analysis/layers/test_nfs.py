"""The layer of an NFS mount, on what the watch wrote of a real one (tests/recorded/layers)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from leadline.analysis.layers.facts import Code
from leadline.analysis.layers.kernel import nfs_flow
from leadline.analysis.layers.windows import Basis, Window
from leadline.formats.watch_records import parse_mount_counters
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op

RECORDED = Path("tests/recorded/layers/nfs42-direct-write/mount-counters.jsonl")
# What fio reported of the same trial: 88 direct writes of 256 KiB in 6.135 s, wsize being 64 KiB.
BLOCKS, BLOCK, SECONDS = 88, 256 << 10, 6.135
LAYER = Layer(kind=LayerKind.NFS, name="/mnt/nfs")
TOTALS = Window(basis=Basis.TOTALS, seconds=SECONDS, spans=((0.0, math.inf),), loaded_s=SECONDS)


def test_direct_writes_are_counted_byte_for_byte_and_commits_are_noted() -> None:
    samples = parse_mount_counters(RECORDED.read_bytes())
    found = nfs_flow(LAYER, samples, {Op.WRITE: TOTALS, Op.READ: TOTALS})
    assert set(found.flows) == {Op.WRITE}
    flow = found.flows[Op.WRITE]
    assert flow.bandwidth.value == pytest.approx(BLOCKS * BLOCK / SECONDS)
    assert flow.rate.value == pytest.approx(4 * BLOCKS / SECONDS)
    assert flow.mean_size == pytest.approx(BLOCK / 4)
    assert flow.latency.value is not None
    assert flow.in_flight.value == pytest.approx(flow.rate.value * flow.latency.value)
    # The client asked the server to keep each block, in addition to WRITE.
    (commits,) = [note.values for note in found.notes if note.code is Code.NFS_COMMITS]
    assert commits["commits"] == BLOCKS
    assert commits["latency_s"] == pytest.approx(0.104, rel=0.01)
