"""Layers of real I/O: fio on ext4 on a loop device, counted by fio and by the kernel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import Ended

pytestmark = [pytest.mark.real, pytest.mark.root]

PLAN = """
targets: [dir:{folder}]
repeats: 1
defaults: {{size: 8M, runtime: 1s, ramp: 0s}}
workloads:
  - {{name: direct-write, pattern: randwrite, block_size: 16k, iodepth: 4}}
  - {{name: direct-read, pattern: randread, block_size: 16k, iodepth: 4}}
  - {{name: buffered-write, pattern: randwrite, block_size: 16k, iodepth: 1, direct: false}}
"""


def test_bytes_of_fio_and_of_its_loop_device_agree_within_5_percent(
    process: Callable[..., Ended], mounted: Path, loop_device: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(folder=mounted))
    ran = process("run", plan)
    assert ran.status in (0, 1), ran.err
    said = process("layers", "@latest", "--format", "json")
    assert said.status == 0, said.err
    cells = {cell["workload"]: cell for cell in json.loads(said.out)["cells"]}
    assert len(cells) == 3

    for name, op in (("direct-write", "write"), ("direct-read", "read")):
        cell = cells[name]
        kinds = [layer["kind"] for layer in cell["layers"]]
        assert kinds[:3] == ["engine", "filesystem", "block"]
        assert cell["layers"][2]["devices"] == [loop_device.name]
        step = first_step(cell, op)
        assert step["one_to_one"], "direct I/O on a file that was laid out before"
        assert abs(step["difference"]) <= 0.05
        assert step["adds_up"]
        device = flow(cell, 2, op)
        assert device["mean_size"] == pytest.approx(16 << 10, rel=0.05)
        assert device["latency"]["value"] > 0
        # Less is in flight at the device than in the engine, and more than nothing.
        assert 0 < device["in_flight"]["value"] <= 4.2

    buffered = first_step(cells["buffered-write"], "write")
    assert not buffered["one_to_one"]
    assert buffered["adds_up"] is None
    # How much of it the kernel holds back is its own affair; that it may is known either way.
    assert 0 <= buffered["bytes_ratio"] < 1.05
    if buffered["reasons"]:
        assert "page cache" in buffered["reasons"][0]

    text = process("layers", "@latest", "--workload", "direct-write").out
    assert f"Writes at {loop_device.name}: 16" in " ".join(text.split())


def first_step(cell: dict[str, Any], op: str) -> dict[str, Any]:
    """From the engine to the device."""
    return next(step for step in cell["steps"] if step["above"] == 0 and step["op"] == op)


def flow(cell: dict[str, Any], layer: int, op: str) -> dict[str, Any]:
    return next(item for item in cell["layers"][layer]["flows"] if item["op"] == op)
