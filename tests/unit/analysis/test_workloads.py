import pytest
from archive_builder import small_plan

from leadline.analysis.workloads import (
    block_bytes,
    depth,
    duration_differences,
    workload_differences,
)
from leadline.metrics import Op
from leadline.plan.workload import Pattern, Phase, Recorded, Workload

WORKLOAD = small_plan().cells[0].workload


def recorded(**options: str) -> Workload:
    return Workload(name="w", recorded=Recorded(tool="fio", options=options), runtime_s=0.0)


def changed(**update: object) -> Workload:
    phase = WORKLOAD.phases[0].model_copy(update=update)
    return WORKLOAD.model_copy(update={"phases": (phase, *WORKLOAD.phases[1:])})


@pytest.mark.parametrize(
    ("key", "value"),
    [("block_size", 12288), ("iodepth", 77), ("numjobs", 9), ("size", 3 << 30)],
)
def test_other_work_is_unlike(key: str, value: int) -> None:
    (said,) = workload_differences(WORKLOAD, changed(**{key: value}))
    assert said == f"phases.0.{key}: {getattr(WORKLOAD.phases[0], key)}, {value}"


def test_a_name_and_a_longer_time_are_the_same_work() -> None:
    longer = WORKLOAD.model_copy(
        update={"name": "other", "description": "d", "runtime_s": WORKLOAD.runtime_s + 5}
    )
    assert workload_differences(WORKLOAD, longer) == ()
    assert duration_differences(WORKLOAD, longer) == (
        f"runtime_s: {WORKLOAD.runtime_s:g} s, {WORKLOAD.runtime_s + 5:g} s",
    )


def test_imported_results_are_unlike_only_in_what_both_tell() -> None:
    ours = recorded(rw="randread", bs="4k", iodepth="16")
    assert workload_differences(ours, recorded(rw="randread", bs="4096")) == ()
    assert workload_differences(ours, recorded(rw="randread", bs="8k")) == ("bs: 4k, 8k",)
    assert workload_differences(ours, recorded(rw="read", iodepth="16")) == ("rw: randread, read",)


def test_depth_is_that_of_all_jobs_and_of_the_phase_with_the_operation() -> None:
    assert depth(recorded(iodepth="16", numjobs="4"), Op.READ) == 64
    assert depth(recorded(numjobs="4"), Op.READ) is None
    common = {"block_size": 4096, "size": 1 << 20}
    phases = (
        Phase(name="r", pattern=Pattern.RANDREAD, iodepth=8, numjobs=2, **common),
        Phase(name="w", pattern=Pattern.RANDWRITE, iodepth=1, numjobs=3, **common),
    )
    both = Workload(name="w", phases=phases, runtime_s=1.0)
    assert (depth(both, Op.READ), depth(both, Op.WRITE), depth(both, Op.TOTAL)) == (16, 3, None)
    assert block_bytes(both) == 4096
    assert block_bytes(recorded()) is None
    assert block_bytes(recorded(bs="1M")) == 1 << 20
