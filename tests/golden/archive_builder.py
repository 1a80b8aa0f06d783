"""Makes real archives from recorded fio outputs, for tests of summaries and reports."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from leadline.archive import layout
from leadline.archive.raw import derive
from leadline.archive.reader import Run
from leadline.archive.records import (
    CacheDrop,
    Extent,
    Problem,
    Processor,
    RoundTrip,
    Runner,
    Runners,
    RunStatus,
    Session,
    TrialRecord,
    TrialStatus,
)
from leadline.archive.writer import RunWriter
from leadline.findings import Finding, Severity
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.result import EngineOutput
from leadline.inventory.host import BlockDevice, HostInventory, Mount, TargetInventory
from leadline.metrics import Op
from leadline.plan.expand import with_repeats
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan, Target
from leadline.plan.settings import Setting

RECORDED = Path(__file__).parent / "recorded"
PLAN = Path(__file__).parent / "plan.yaml"
NAMES = ("disk", "memory")
CREATED = "2026-11-21T02:55:00+00:00"


def small_plan(names: Collection[str] = NAMES, *, repeats: int = 3) -> Plan:
    """The golden plan on targets that are named as given."""
    urls = [f"dir:/srv/target-{index}" for index in range(len(names))]
    plan = load_plan(PLAN, Overrides(targets=urls, repeats=repeats))
    renamed = dict(zip(urls, names, strict=True))
    targets = [Target(name=renamed[one.name], url=one.url) for one in plan.targets]
    cells = [one.model_copy(update={"target": renamed[one.target]}) for one in plan.cells]
    return plan.model_copy(update={"targets": tuple(targets), "cells": tuple(cells)})


def plan_with_settings(names: Collection[str] = ("disk",), *, repeats: int = 3) -> Plan:
    """The golden plan on targets in their present state and with two values of a setting."""
    plan = small_plan(names, repeats=repeats)
    command = {"apply": "set {value}", "read": "get", "restore": "set {before}"}
    setting = Setting.model_validate(
        {"name": "mode", "command": {**command, "values": ["same", "other"]}}
    )
    states = [
        one.model_copy(
            update={
                "name": f"{one.name} mode={value}",
                "labels": {"mode": value},
                "settings": {"mode": value},
                "base": one.name,
            }
        )
        for one in plan.targets
        for value in setting.values
    ]
    cells = (
        *plan.cells,
        *(
            cell.model_copy(update={"target": state.name})
            for state in states
            for cell in plan.cells
            if cell.target == state.base
        ),
    )
    tried = plan.model_copy(
        update={"targets": (*plan.targets, *states), "cells": cells, "settings": (setting,)}
    )
    return with_repeats(tried, [repeats] * len(cells))


# No test cuts the power of these archives: to sync hundreds of trials takes most of their time.
@patch("os.fsync", new=lambda descriptor: None)
def make_run(
    folder: Path,
    plan: Plan | None = None,
    *,
    fails: Callable[[str, str, int], bool] = lambda target, workload, block: False,
    recorded_for: Callable[[str], str] = lambda target: target if target in NAMES else "disk",
    recorded_as: Callable[[str], str] = lambda workload: workload,
    run_id: str = "perf-20261121-025500",
    status: RunStatus = RunStatus.COMPLETE,
    inventory: bool = True,
    round_trip_s: Callable[[str], float | None] = lambda target: None,
    runners_of: Callable[[str, int], tuple[Runner, ...]] = lambda target, block: (),
) -> Run:
    """An archive of `plan` whose trials repeat the recorded outputs; `fails` says which fail,
    `round_trip_s` what ping said before a target's trials, `runners_of` what did their I/O."""
    plan = plan or small_plan()
    session = Session(
        started_at=CREATED,
        hostname="bench-1",
        leadline_version="0.1.0",
        python_version="3.11.2",
        command=("leadline", "run", "plan.yaml", "--runs", "/srv/runs"),
    )
    writer = RunWriter.create(
        folder / run_id,
        plan=plan,
        plan_as_given=PLAN.read_bytes(),
        created_at=CREATED,
        session=session,
    )
    for trial in plan.trials:
        cell = plan.cells[trial.cell]
        source = RECORDED / recorded_for(cell.target) / recorded_as(cell.workload.name)
        failed = fails(cell.target, cell.workload.name, trial.block)
        with writer.staged(f"{layout.TRIALS}/{trial.id}-1") as staged:
            if not failed:
                repeat = source / str(trial.block % 3 + 1)
                for path in sorted(repeat.iterdir()):
                    shutil.copy(path, staged / path.name)
                (staged / layout.DERIVED).write_bytes(_derived(repeat / layout.FIO_OUTPUT))
            runners = runners_of(cell.target, trial.block)
            if runners:
                told = layout.encode(Runners(runners=runners))
                (staged / layout.RUNNERS).write_bytes(told)
            trip = round_trip_s(cell.target)
            RunWriter.write_trial(staged, _record(plan, trial.position, failed, trip))
    if inventory:
        writer.write_inventory("start", host(plan))
        writer.write_inventory("end", host(plan))
    writer.seal(status, ended_at="2026-11-21T02:59:20+00:00")
    writer.close()
    return Run(writer.path)


@functools.cache
def _derived(path: Path) -> bytes:
    """What is derived from a recorded output: hundreds of trials repeat the same few."""
    output = parse_fio_json(path.read_bytes())
    assert isinstance(output, EngineOutput)
    return layout.encode(derive(output))


def _record(plan: Plan, position: int, failed: bool, trip_s: float | None) -> TrialRecord:
    trial = plan.trials[position]
    cell = plan.cells[trial.cell]
    asked = cell.workload.duration_s
    problem = Problem(code="target-gone", fact="the target was unmounted while fio ran")
    return TrialRecord(
        trial=trial.id,
        attempt=1,
        target=cell.target,
        workload=cell.workload.name,
        level=cell.level,
        block=trial.block,
        status=TrialStatus.FAILED if failed else TrialStatus.COMPLETED,
        engine="fio",
        engine_version="fio-3.33",
        started_at=CREATED,
        ended_at=(datetime.fromisoformat(CREATED) + timedelta(seconds=asked + 0.4)).isoformat(),
        wall_s=asked + 0.4,
        asked_s=asked,
        bound_s=asked + 10,
        processor=Processor(cores=2, busy_share=0.41, steal_share=0.02, engine_cpu_s=1.4),
        cache_drop=CacheDrop(
            method="posix_fadvise", resident_before_bytes=1 << 20, resident_after_bytes=0
        ),
        extent=Extent(span_bytes=1 << 26, written_bytes=1 << 26, allocated_bytes=1 << 26),
        round_trips=()
        if trip_s is None
        else tuple(
            RoundTrip(
                source="az1",
                destination=zone,
                asked_s=trip_s,
                min_s=trip_s,
                median_s=trip_s * (1 + number / 100),
                samples=50,
            )
            for number, zone in enumerate(("az2", "az3"), start=1)
        ),
        problem=problem if failed else None,
    )


def host(plan: Plan) -> HostInventory:
    return HostInventory(
        taken_at=CREATED,
        hostname="bench-1",
        operating_system="Debian GNU/Linux 12 (bookworm)",
        kernel="6.18.44",
        architecture="x86_64",
        virtualization="kvm",
        cpu_model="AMD EPYC 9B14",
        cores=2,
        memory_bytes=25_000_000_000,
        block_devices=(
            BlockDevice(
                name="vda", kind="disk", size_bytes=274_877_906_944, rotational=True,
                scheduler="none",
            ),
        ),
        targets=tuple(
            TargetInventory(
                target=target.name,
                url=target.url,
                mount=Mount(
                    source="/dev/vda", mount_point="/srv", filesystem="ext4",
                    options="rw,relatime",
                ),
            )
            for target in plan.targets
        ),
        fio_version="fio-3.33",
    )  # fmt: skip


def some_findings(first: str = "disk", second: str = "memory") -> tuple[Finding, ...]:
    """One of each kind: a cell's error, a latency-only warning, a trial's, the run's, context."""
    infos = tuple(
        Finding(
            code="bimodal-latency",
            severity=Severity.INFO,
            target=target,
            workload="mixed-70-30-4k",
            level="qd32",
            op=op,
            evidence={"low_mode_s": 0.00012, "high_mode_s": 0.0021, "high_mode_share": 0.08},
            message="Latencies have two modes far apart: 120 us and 2.1 ms.",
            remedy="Look at p99 rather than at the mean.",
        )
        for target in (first, second)
        for op in (Op.READ, Op.WRITE)
    )
    return (
        Finding(
            code="cache-served-reads",
            severity=Severity.ERROR,
            target=second,
            workload="randread-4k-qd1",
            level="qd1",
            op=Op.READ,
            evidence={"latency_p50_s": 1.1e-06, "floor_s": 2e-05},
            message="The median read took 1.1 us, less than any storage needs: memory answered.",
            remedy="Use direct I/O, or a file larger than memory.",
        ),
        Finding(
            code="not-steady",
            severity=Severity.WARNING,
            target=first,
            workload="sequential-1m",
            level="qd8",
            op=Op.WRITE,
            trial=None,
            evidence={"range_share": 0.31, "windows": 5},
            message="Bandwidth was not steady: the last 5 windows range over 31 % of their mean.",
            remedy="Run longer, or fill the cache first: --runtime 120s --ramp 30s.",
        ),
        Finding(
            code="latency-tail",
            severity=Severity.WARNING,
            target=first,
            workload="randwrite-4k-qd1",
            level="qd1",
            op=Op.WRITE,
            latency_only=True,
            evidence={"latency_p999_s": 0.012},
            message="One write in a thousand took longer than 12 ms.",
            remedy="Look for a flush or a neighbour at that time.",
        ),
        Finding(
            code="client-saturated",
            severity=Severity.WARNING,
            evidence={"busy_share": 0.97, "cores": 2},
            message="The load generator's 2 cores were busy 97 % of the time.",
            remedy="Use a machine with more cores, or fewer jobs.",
        ),
        *infos,
    )
