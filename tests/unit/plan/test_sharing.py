"""Jobs that share one file: the data, the job file, the name of the level."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.engines.fio.job import Vary, job_text
from leadline.errors import LeadlineError
from leadline.plan.footprint import footprint_of
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan
from leadline.runner.ports import Shape

MIB = 1 << 20
WORKLOADS = """
  - {name: own, pattern: randread, numjobs: 4, size: 8M}
  - {name: one, pattern: randrw, numjobs: 4, size: 24M, sharing: one-file}
  - {name: row, pattern: write, block_size: 1M, numjobs: 5, size: 24M, sharing: one-file,
     clients: 2}
"""


def planned(folder: Path, workloads: str) -> Plan:
    file = folder / "plan.yaml"
    file.write_text(f"targets: ['dir:/mnt']\nworkloads:{workloads}")
    return load_plan(file, Overrides())


def options(plan: Plan, number: int, shape: Shape, *, vary: Vary = Vary.NOTHING) -> dict[str, str]:
    text = job_text(plan.cells[number].workload, shape, 1, vary=vary)
    section = text.rpartition("[")[2]
    return dict(line.split("=", 1) for line in section.splitlines() if "=" in line)


def test_the_jobs_of_a_client_have_one_file_of_that_size(tmp_path: Path) -> None:
    plan = planned(tmp_path, WORKLOADS)
    assert [cell.level for cell in plan.cells] == [
        "qd1x4", "qd1x4-one-file", "c2-qd1x5-one-file",
    ]  # fmt: skip
    alone = footprint_of([plan.cells[1].workload])
    assert (alone.files, alone.span) == ({"leadline.0.dat": 24 * MIB}, 24 * MIB)
    together = footprint_of(cell.workload for cell in plan.cells)
    assert list(together.files.values()) == [24 * MIB, *[8 * MIB] * 3, 24 * MIB]
    assert together.span == 48 * MIB


def test_random_io_goes_anywhere_and_a_sequence_has_a_part_for_each_job(tmp_path: Path) -> None:
    plan = planned(tmp_path, WORKLOADS)
    anywhere = options(plan, 1, Shape.FILES)
    assert (anywhere["filename"], anywhere["size"]) == ("leadline.0.dat", str(24 * MIB))
    assert "offset_increment" not in anywhere
    assert "offset_increment" not in options(plan, 1, Shape.SPAN)
    assert options(plan, 0, Shape.SPAN)["offset_increment"] == str(8 * MIB)
    # Four whole blocks of 1 MiB for each of five jobs.
    parts = options(plan, 2, Shape.FILES, vary=Vary.DATA)
    assert (parts["size"], parts["offset_increment"]) == (str(4 * MIB), str(4 * MIB))
    assert parts["filename"].endswith("0.dat")
    text = job_text(plan.cells[2].workload, Shape.SPAN, 1, vary=Vary.DATA)
    assert f"= 0 + {24 * MIB} x (k - 1)" in text, "clients do not overlap"


def test_plans_without_it_are_written_as_before(tmp_path: Path) -> None:
    written = planned(tmp_path, WORKLOADS).model_dump(mode="json", by_alias=True)
    phases = [cell["workload"]["phases"][0] for cell in written["cells"]]
    assert [phase.get("sharing") for phase in phases] == [None, "one-file", "one-file"]
    assert "sharing" not in phases[0]


@pytest.mark.parametrize(
    "workload",
    [
        "\n  - {name: a, pattern: write, block_size: 1M, numjobs: 8, size: 4M, sharing: one-file}",
        "\n  - {name: a, pattern: write, engine: zfs-stream, sharing: one-file}",
        "\n  - {name: a, pattern: write, sharing: all}",
    ],
)
def test_what_cannot_be_shared_is_refused(tmp_path: Path, workload: str) -> None:
    with pytest.raises(LeadlineError, match="fault"):
        planned(tmp_path, workload)
