"""Which settings can matter, by the evidence of one trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from leadline.analysis.layers.relevance import settings_of
from leadline.analysis.layers.relevance_model import Relevance, Setting
from leadline.analysis.layers.trial import TrialLayers, trial_layers
from leadline.archive import layout
from tests.unit.analysis.layers.layer_archives import lines, stamp
from tests.unit.analysis.layers.streams import SECONDS, stack, stream_run

SLOW = {"throughput_bps": 12e6, "size": 11e3, "latency_s": 1.2e-3}
GROUPS = ("capacity", "operations", "bandwidth", "disk_wait", "asyncq_write")
HEAD = (
    "              capacity     operations     bandwidth    disk_wait  asyncq_write\n"
    "pool        alloc   free   read  write   read  write   read  write   pend  activ\n"
    "----------  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----\n"
)
KINDS = ("sync_read", "sync_write", "async_read", "async_write", "scrub", "trim", "rebuild")


def iostat(*, active: int, pending: int, reads: int = 0) -> str:
    """Each second: 1,000 writes of 12,000 bytes, each 1.3 ms, with so many in the queue."""
    row = f"1000 1000 {reads} 1000 {reads * 4096} 12000000 0 1300000 {pending} {active}"
    cells = row.split()
    block = "".join(
        f"{name:<10}  " + "  ".join(f"{one:>5}" for one in cells) + "\n"
        for name in ("tank", "  loop7")
    )
    return "".join(HEAD + block for _ in range(SECONDS))


def requests(individual: Mapping[int, int], aggregated: Mapping[int, int]) -> str:
    head = "tank          " + "    ".join(KINDS) + "\n"
    head += "req_size  " + "    ind    agg" * len(KINDS) + "\n----------\n"
    rows = []
    for power in range(9, 25):
        counts = [0] * (2 * len(KINDS))
        counts[6], counts[7] = individual.get(1 << power, 0), aggregated.get(1 << power, 0)
        rows.append(f"{1 << power}  " + "  ".join(map(str, counts)) + "\n")
    return head + "".join(rows)


def kstat(**values: int) -> str:
    rows = "".join(f"{name} 4 {value}\n" for name, value in values.items())
    return f"1 1 0x01 {len(values)} 272 1 2\nname type data\n{rows}"


def txgs(*groups: tuple[int, float, float]) -> str:
    """Committed groups by number, seconds open and seconds of writing."""
    head = "txg birth state ndirty nread nwritten reads writes otime qtime wtime stime\n"
    return head + "".join(
        f"{txg} {txg} C 0 0 0 0 0 {open_s * 1e9:.0f} 0 0 {sync_s * 1e9:.0f}\n"
        for txg, open_s, sync_s in groups
    )


def found(
    folder: Path,
    *,
    record: int = 8192,
    text: str = "",
    ends: Mapping[str, tuple[str, str]] | None = None,
    **facts: str,
) -> TrialLayers:
    """A stream with the answers of ZFS at its start and end."""
    run = stream_run(folder, {"zfs": (stack(record, **facts), [SLOW])})
    trial = run.trial_folders[0]
    if text:
        (trial / layout.ZPOOL_IOSTAT).write_text(text)
    answers = [
        {**stamp(float(at)), "pool": "tank", "asked": asked, "text": both[which]}
        for which, at in enumerate((0, SECONDS))
        for asked, both in (ends or {}).items()
    ]
    lines(trial, layout.ZFS, answers)
    return trial_layers(run.trials[0], run.stacks["zfs"])


def judged(trial: TrialLayers, parameters: Mapping[str, str] | None = None) -> dict[str, Setting]:
    return {one.name: one for one in settings_of(trial, parameters or {}, None)}


@pytest.mark.parametrize(
    ("active", "pending", "relevance"),
    [(10, 30, Relevance.CAN), (2, 0, Relevance.CANNOT), (2, 5, Relevance.CAN)],
    ids=["full", "never full", "held at its lower bound"],
)
def test_the_queue_of_a_vdev(
    tmp_path: Path, active: int, pending: int, relevance: Relevance
) -> None:
    one = found(tmp_path / "r", text=iostat(active=active, pending=pending))
    settings = judged(one)
    queue = settings["zfs_vdev_async_write_max_active"]
    assert queue.relevance is relevance
    assert queue.evidence["active_mean"] == active
    assert queue.evidence["pending_mean"] == pending
    assert queue.evidence["limit"] == 10
    assert settings["number of vdevs"].relevance is relevance
    zfs = one.layers[1]
    # By the waits of all requests, not by a queue that is looked at once a second.
    assert zfs.in_flight.value == pytest.approx(
        sum(one.rate.value * one.latency.value for one in zfs.flows.values())
    )


def test_the_limit_of_a_queue_is_the_modules_own(tmp_path: Path) -> None:
    one = found(tmp_path / "r", text=iostat(active=10, pending=0))
    raised = judged(one, {"zfs_vdev_async_write_max_active": "32"})
    queue = raised["zfs_vdev_async_write_max_active"]
    assert (queue.value, queue.relevance) == ("32", Relevance.CANNOT)


def test_without_queues_nothing_is_said_of_them(tmp_path: Path) -> None:
    queue = judged(found(tmp_path / "r"))["zfs_vdev_async_write_max_active"]
    assert queue.relevance is Relevance.NOT_KNOWN


@pytest.mark.parametrize(
    ("record", "aggregated", "relevance"),
    [
        (8192, {65536: 500, 131072: 20}, Relevance.CAN),
        (8192, {16384: 500}, Relevance.CANNOT),
        (131072, {131072: 500}, Relevance.CANNOT),
    ],
    ids=["reaches the limit", "far from the limit", "records as large as the limit"],
)
def test_aggregation(
    tmp_path: Path, record: int, aggregated: Mapping[int, int], relevance: Relevance
) -> None:
    ends = {"iostat -r -p": (requests({}, {}), requests({8192: 500}, aggregated))}
    setting = judged(found(tmp_path / "r", record=record, ends=ends))
    assert setting["zfs_vdev_aggregation_limit_non_rotating"].relevance is relevance


@pytest.mark.parametrize(("delayed", "relevance"), [(7, Relevance.CAN), (0, Relevance.CANNOT)])
def test_dirty_data_matters_where_writers_were_delayed(
    tmp_path: Path, delayed: int, relevance: Relevance
) -> None:
    counters = {"dmu_tx_assigned": 9, "dmu_tx_dirty_over_max": 3}
    ends = {
        "kstat dmu_tx": (
            kstat(**counters, dmu_tx_dirty_delay=5),
            kstat(**counters, dmu_tx_dirty_delay=5 + delayed),
        )
    }
    setting = judged(found(tmp_path / "r", ends=ends))["zfs_dirty_data_max"]
    assert setting.relevance is relevance
    assert setting.evidence["dmu_tx_dirty_delay"] == delayed


@pytest.mark.parametrize(("open_s", "relevance"), [(5.0, Relevance.CAN), (0.4, Relevance.CANNOT)])
def test_the_timeout_matters_where_groups_end_by_it(
    tmp_path: Path, open_s: float, relevance: Relevance
) -> None:
    before = (7, 5.0, 0.1)
    ends = {"kstat txgs": (txgs(before), txgs(before, (8, open_s, 0.2), (9, open_s, 0.2)))}
    setting = judged(found(tmp_path / "r", ends=ends))["zfs_txg_timeout"]
    assert setting.relevance is relevance
    assert setting.evidence["groups"] == 2, "the group before the trial is none of its own"
    assert setting.evidence["open_s"] == pytest.approx(open_s)


def test_zfs_fuse_has_no_module_to_set(tmp_path: Path) -> None:
    settings = judged(found(tmp_path / "r", implementation="fuse"))
    for name in ("zfs_dirty_data_max", "zfs_txg_timeout", "zfs_vdev_aggregation_limit"):
        assert settings[name].relevance is Relevance.CANNOT
        assert "cannot be set there" in settings[name].sentence
    assert settings["number of vdevs"].relevance is Relevance.CAN, "8 wait at the device, 1.3 pass"


def test_reads_below_a_write_are_what_a_cache_might_answer(tmp_path: Path) -> None:
    dry = judged(found(tmp_path / "a", text=iostat(active=1, pending=0)))["primarycache"]
    read = judged(found(tmp_path / "b", text=iostat(active=1, pending=0, reads=500)))
    assert dry.relevance is Relevance.CANNOT
    assert read["primarycache"].relevance is Relevance.CAN


def test_an_object_that_no_request_comes_near(tmp_path: Path) -> None:
    setting = judged(found(tmp_path / "r"))["object size of the image"]
    assert setting.relevance is Relevance.CANNOT
    assert "1/381 of an object" in setting.sentence


def test_sync_matters_where_it_is_asked_for(tmp_path: Path) -> None:
    standard = judged(found(tmp_path / "a", sync="standard"))["sync, logbias"]
    always = judged(found(tmp_path / "b", sync="always"))["sync, logbias"]
    assert (standard.relevance, always.relevance) == (Relevance.CANNOT, Relevance.CAN)


def test_every_judgement_has_a_sentence_and_finite_numbers(tmp_path: Path) -> None:
    one = found(tmp_path / "r", text=iostat(active=3, pending=0))
    for setting in judged(one).values():
        assert setting.sentence.endswith(".")
        assert all(value == value and abs(value) < 1e18 for value in setting.evidence.values())


def test_zpool_iostat_and_the_device_tell_the_same(tmp_path: Path) -> None:
    one = found(tmp_path / "r", text=iostat(active=3, pending=0))
    step = next(step for step in one.steps if (step.above, step.below) == (1, 2))
    assert step.bytes_ratio == pytest.approx(1, abs=0.001)
    assert step.operations_ratio == pytest.approx(1.09, abs=0.001)
