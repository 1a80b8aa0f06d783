"""A sweep of clients, shares of its peak, a search for density and noisy neighbours on a directory,
with real fio: from the plan to the answer and the page.

The rates that are asked for are so low that no machine is too busy to offer them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from tests.real.conftest import Ended, fio_processes

pytestmark = [pytest.mark.real, pytest.mark.slow]
PLAN = """\
targets: [{{target: "dir:{folder}", name: disk}}]
repeats: 1
grace: 60s
defaults: {{size: 4M, runtime: 1s, ramp: 0}}
workloads:
  - name: sweep
    pattern: randread
    levels: [{{clients: 1}}, {{clients: 2}}]
    open_loop: [30%]
  - name: dense
    pattern: randread
    density: {{rate: 4, limit: mean<60s, most: 2}}
  - name: victim
    pattern: randread
    levels: [{{neighbours: 0}}, {{neighbours: 1}}]
    neighbour: {{pattern: randwrite, block_size: 64k, iodepth: 8}}
"""


def test_a_sweep_is_answered(process: Callable[..., Ended], tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(folder=folder))
    ran = process("run", plan, "--format", "json")
    assert ran.status in (0, 1), ran.err
    assert "level c2-qd1, 2 of 2" in ran.err, "the curve as it grows"
    run = Run(Path(json.loads(ran.out)["path"]))
    levels = [cell.level for cell in run.plan.cells]
    assert levels == [
        "c1-qd1",
        "c2-qd1",
        "c1-qd1-n0",
        "c1-qd1-n1",
        "peak30",
        "c1-qd64-rate4",
        "c2-qd64-rate4",
    ]
    disturbed = next(trial for trial in run.trials if trial.record.level == "c1-qd1-n1")
    assert [client.name for client in disturbed.clients] == ["c1", "n1"]
    assert {operation.op.value for operation in disturbed.derived.operations} == {"read"}  # type: ignore[union-attr]
    assert list(folder.iterdir()) == []
    assert fio_processes(folder) == []

    told = json.loads(process("scale", "@latest", "--format", "json").out)
    curve = next(curve for curve in told["curves"] if curve["workload"] == "sweep")
    assert [(point["level"], point["loop"]) for point in curve["points"]] == [
        ("c1-qd1", "closed"),
        ("c2-qd1", "closed"),
        ("peak30", "open"),
    ]
    offered = curve["points"][2]["offered_iops"]
    assert offered == pytest.approx(0.3 * curve["peak"]["iops"], rel=0.01)
    (density,) = told["density"]
    assert (density["kept"], density["broken"], density["most"]) == (2, None, 2)
    assert {neighbour["neighbours"] for neighbour in told["neighbours"]} == {1}

    page = tmp_path / "page.html"
    assert process("report", "@latest", "-o", page).status == 0
    assert "Load curves" in page.read_text("utf-8")
    checked = process("verify", page)
    assert checked.status == 0, checked.out + checked.err
