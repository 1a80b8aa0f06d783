"""Workloads of `engine: pgbench` and `engine: sysbench`."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.errors import LeadlineError
from leadline.metrics import Op
from leadline.plan.footprint import DATABASE_LOG_BYTES, target_footprint
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan
from leadline.runner.trial import trial_bound_s

BANK = "{name: bank, pattern: randrw, engine: pgbench, size: 1G, runtime: 10s"
PAGES = "{name: pages, pattern: randread, engine: sysbench, size: 1G, runtime: 10s"


def load(tmp_path: Path, workload: str, target: str = "dir:/x") -> Plan:
    path = tmp_path / "plan.yaml"
    cluster = "clusters: {k: {kubernetes: {image: runner}}}\n" if "storage" in target else ""
    path.write_text(
        f"leadline: 1\n{cluster}targets: [{{target: '{target}', name: t}}]\n"
        f"workloads: [{workload}}}]\n"
    )
    return load_plan(path, Overrides())


def test_a_database_has_connections_and_transactions(tmp_path: Path) -> None:
    plan = load(tmp_path, f"{BANK}, levels: [{{numjobs: 1}}, {{numjobs: 8}}]")
    assert [cell.level for cell in plan.cells] == ["conn1", "conn8"]
    assert plan.cells[0].workload.ops == (Op.TRANSACTION,)
    assert not plan.cells[0].workload.in_blocks


def test_sysbench_has_threads_and_blocks(tmp_path: Path) -> None:
    (cell,) = load(tmp_path, f"{PAGES}, block_size: 16k, numjobs: 16").cells
    assert (cell.level, cell.workload.ops, cell.workload.in_blocks) == ("qd1x16", (Op.READ,), True)


def test_data_is_made_in_each_trial_and_needs_its_space_and_time(tmp_path: Path) -> None:
    plan = load(tmp_path, f"{BANK}, numjobs: 8")
    footprint = target_footprint(plan, "t")
    assert (footprint.files, footprint.prefilled_bytes) == ({}, 0)
    assert footprint.total_bytes == (1 << 30) + DATABASE_LOG_BYTES
    assert trial_bound_s(plan.cells[0].workload, 10.0) > 500
    # The threads of sysbench share its data.
    pages = load(tmp_path, f"{PAGES}, numjobs: 16")
    assert target_footprint(pages, "t").total_bytes == 1 << 30


@pytest.mark.parametrize(
    ("workload", "target", "fault"),
    [
        (f"{BANK}, iodepth: 4", "dir:/x", "neither depth nor rate"),
        (f"{BANK}, fsync: 1", "dir:/x", "omit fsync"),
        (f"{BANK}, clients: 2", "dir:/x", "omit clients"),
        (f"{BANK}, sharing: one-file", "dir:/x", "omit sharing"),
        (BANK.replace("randrw", "read"), "dir:/x", "takes one pattern of randread, "),
        (PAGES.replace("randread", "rw"), "dir:/x", "takes one pattern of randread, "),
        (PAGES, "hosts:a,b:/x", "not for hosts: ones"),
        (PAGES, "device:/dev/x", "not for device: ones"),
        (PAGES, "storageclass:fast", "mode=filesystem"),
        (PAGES, "storageclass:fast?runner=vm", "omit runner=vm"),
        (BANK, "storageclass:fast?mode=filesystem&size=1Gi", "too small for the 2.06 GiB"),
    ],
)
def test_what_has_no_meaning_for_a_program_is_refused(
    tmp_path: Path, workload: str, target: str, fault: str
) -> None:
    with pytest.raises(LeadlineError, match="plan-invalid") as refused:
        load(tmp_path, workload, target)
    assert fault in str(refused.value)


def test_a_volume_with_a_file_system_takes_both(tmp_path: Path) -> None:
    for workload in (BANK, PAGES):
        plan = load(tmp_path, workload, "storageclass:fast?mode=filesystem&count=2")
        assert len(plan.cells) == 1


def test_the_profile_of_small_files_is_a_job_file_of_its_own(tmp_path: Path) -> None:
    overrides = Overrides(targets=["dir:/x"], profiles=["small-files"])
    (cell,) = load_plan(None, overrides).cells
    assert cell.workload.job_file is not None
    assert cell.workload.job_file.text.count("ioengine=file") == 3
    # fio lays out each phase; the files are the same 10,000 of 4 KiB.
    assert target_footprint(load_plan(None, overrides), "dir:/x").total_bytes == 3 * 10000 * 4096
