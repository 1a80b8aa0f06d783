"""What `leadline settings` finds on a real Ceph cluster: a setting whose cost is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.real.conftest import Ended

pytestmark = [pytest.mark.real, pytest.mark.slow]
Process = Callable[..., Ended]
# Every message between daemons is formatted: processor time that no I/O needs.
LOUD = {"ceph_config": {"who": "osd", "name": "debug_ms", "values": ["0/0", "20/20"]}}


def test_messages_in_the_log_cost_processor_time(
    lab: str, process: Process, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    written = {
        "clusters": {"c": {"lab": lab}},
        "targets": [{"name": "rep3", "target": "rbd:rep3"}],
        "settings": {"messages": LOUD},
        "workloads": [
            {
                "name": "rr",
                "pattern": "randread",
                "block_size": "4k",
                "iodepth": 8,
                "size": "16M",
                "runtime": "1500ms",
            }
        ],
        "repeats": 4,
    }
    plan.write_text(yaml.safe_dump(written))
    ended = process("run", plan)
    assert ended.status in (0, 1), ended.err
    found = json.loads(process("settings", "--format", "json").out)
    quiet, loud = found["states"]
    assert (quiet["state"], loud["state"]) == ("messages=0/0", "messages=20/20")
    assert quiet["refused"] == loud["refused"] == []
    assert "storage_cpu_per_io" not in found["missing_costs"]
    assert "storage_memory" not in found["missing_costs"]
    cost = loud["costs"]["storage_cpu_per_io"]
    assert cost["ratio"] > 1.1
    assert cost["ratio"] > quiet["costs"]["storage_cpu_per_io"]["ratio"]
    assert not loud["recommended"]
    page = tmp_path / "settings.html"
    assert process("settings", "-o", page).status == 0
    assert process("verify", page).status == 0
