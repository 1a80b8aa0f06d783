"""Which settings can matter, by the evidence of one trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from leadline.analysis.layers.facts import Code, Relevance, Setting
from leadline.analysis.layers.relevance import find_settings
from leadline.analysis.layers.trial import TrialLayers, trial_layers
from leadline.archive import layout
from leadline.inventory.layer import Layer, LayerKind
from leadline.report.pages.layer_words import words
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


def iostat(*, active: int, pending: int, reads: int = 0, seconds: int = SECONDS) -> str:
    """Each second: 1,000 writes of 12,000 bytes, each 1.3 ms, with so many in the queue."""
    row = f"1000 1000 {reads} 1000 {reads * 4096} 12000000 0 1300000 {pending} {active}"
    cells = row.split()
    block = "".join(
        f"{name:<10}  " + "  ".join(f"{one:>5}" for one in cells) + "\n"
        for name in ("tank", "  loop7")
    )
    return "".join(HEAD + block for _ in range(seconds))


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


def txgs(*groups: tuple[float, ...]) -> str:
    """Committed groups by number, seconds open, seconds of writing and what was dirty."""
    head = "txg birth state ndirty nread nwritten reads writes otime qtime wtime stime\n"
    return head + "".join(
        f"{txg} {txg} C {dirty[0] if dirty else 0} 0 0 0 0 {open_s * 1e9:.0f} 0 0 "
        f"{sync_s * 1e9:.0f}\n"
        for txg, open_s, sync_s, *dirty in groups
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
    settings = find_settings(trial, parameters or {}, None)
    assert all(words(setting.cause) for setting in settings), "a template lacks no value"
    return {setting.name: setting for setting in settings}


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
        (65536, {131072: 500}, Relevance.CAN),
        (131072, {131072: 500}, Relevance.NOT_KNOWN),
    ],
    ids=["reaches the limit", "far from the limit", "two records", "records as large as it"],
)
def test_aggregation(
    tmp_path: Path, record: int, aggregated: Mapping[int, int], relevance: Relevance
) -> None:
    ends = {"iostat -r -p": (requests({}, {}), requests({8192: 500}, aggregated))}
    setting = judged(found(tmp_path / "r", record=record, ends=ends))
    assert setting["zfs_vdev_aggregation_limit_non_rotating"].relevance is relevance


@pytest.mark.parametrize(
    ("active", "pending", "relevance"),
    [(2, 0, Relevance.CANNOT), (2, 5, Relevance.CAN), (10, 0, Relevance.CAN)],
    ids=["no neighbour waits", "neighbours wait", "the queue is full"],
)
def test_records_as_large_as_the_limit_are_joined_by_a_larger_one_if_any_wait(
    tmp_path: Path, active: int, pending: int, relevance: Relevance
) -> None:
    one = found(tmp_path / "r", record=131072, text=iostat(active=active, pending=pending))
    setting = judged(one)["zfs_vdev_aggregation_limit_non_rotating"]
    assert setting.relevance is relevance
    assert setting.evidence == {"record_bytes": 131072, "limit_bytes": 131072}


def test_pieces_of_a_record_are_joined_on_raidz(tmp_path: Path) -> None:
    """Four columns of 32 KiB: a limit of 128 KiB holds four of them."""
    ends = {"iostat -r -p": (requests({}, {}), requests({32768: 500}, {65536: 20}))}
    one = found(tmp_path / "r", record=131072, ends=ends, layout="1 x raidz2 of 6")
    setting = judged(one)["zfs_vdev_aggregation_limit_non_rotating"]
    assert setting.relevance is Relevance.CAN


def test_the_limit_is_that_of_the_vdevs_and_not_of_the_disk_below(tmp_path: Path) -> None:
    turning = {"facts": {"type": "disk", "rotational": "yes"}}
    layers = stack(8192)
    below = layers[1].model_copy(update={"name": "sda", "devices": ("sda",), **turning})
    run = stream_run(tmp_path / "r", {"zfs": ((*layers[:2], below), [SLOW])})
    names = judged(trial_layers(run.trials[0], run.stacks["zfs"]))
    assert "zfs_vdev_aggregation_limit_non_rotating" in names
    assert "zfs_vdev_aggregation_limit" not in names


@pytest.mark.parametrize(
    ("kind", "limit"), [("sync_write", 10), ("async_write", 10)], ids=["log", "groups"]
)
def test_the_class_that_is_busy_is_the_one_that_is_judged(
    tmp_path: Path, kind: str, limit: int
) -> None:
    """Writes of the intent log, and direct I/O since 2.3, are synchronous."""
    text = iostat(active=limit, pending=3).replace("asyncq_write", kind.replace("_", "q_"))
    settings = judged(found(tmp_path / "r", text=text))
    name = f"zfs_vdev_{kind}_max_active"
    assert settings[name].relevance is Relevance.CAN
    assert settings[name].evidence["limit"] == limit


def test_a_queue_that_was_hardly_looked_at_is_not_called_free(tmp_path: Path) -> None:
    one = found(tmp_path / "r", text=iostat(active=1, pending=0, seconds=4))
    assert one.layers[1].unobserved, "less than half of the seconds have no figures"
    settings = judged(one)
    assert settings["zfs_vdev_async_write_max_active"].relevance is Relevance.NOT_KNOWN
    assert settings["number of vdevs"].relevance is not Relevance.CANNOT


def test_waits_of_all_requests_are_more_exact_than_a_sample_each_second(tmp_path: Path) -> None:
    """No request is seen waiting, yet each waited 2 ms for a device that takes 1.3 ms."""
    text = iostat(active=1, pending=0)
    text = text.replace("  asyncq_write\n", "  asyncq_write  asyncq_wait\n")
    text = text.replace("pend  activ\n", "pend  activ   read  write\n")
    rows = [
        f"{line}  0  2000000" if line.split()[:1] in (["tank"], ["loop7"]) else line
        for line in text.splitlines()
    ]
    settings = judged(found(tmp_path / "r", text="\n".join(rows) + "\n"))
    queue = settings["zfs_vdev_async_write_max_active"]
    assert (queue.relevance, queue.evidence["waited_s"]) == (Relevance.CAN, pytest.approx(2e-3))
    assert settings["number of vdevs"].relevance is Relevance.CAN


DIRTY_MAX = {"zfs_dirty_data_max": "1000000"}


def waits(delayed: int) -> dict[str, tuple[str, str]]:
    counters = {"dmu_tx_assigned": 9, "dmu_tx_dirty_over_max": 3}
    return {
        "kstat dmu_tx": (
            kstat(**counters, dmu_tx_dirty_throttle=5, dmu_tx_dirty_delay=5),
            kstat(**counters, dmu_tx_dirty_throttle=5 + delayed, dmu_tx_dirty_delay=5 + delayed),
        )
    }


def test_dirty_data_matters_where_writers_were_delayed(tmp_path: Path) -> None:
    setting = judged(found(tmp_path / "r", ends=waits(7)))["zfs_dirty_data_max"]
    assert setting.relevance is Relevance.CAN
    assert setting.evidence["dmu_tx_dirty_delay"] == 7
    assert setting.cause.values["times"] == 7, "a writer counts once, though in two counters"


@pytest.mark.parametrize(
    ("dirty", "parameters", "relevance"),
    [
        (199_999, DIRTY_MAX, Relevance.CANNOT),
        (200_000, DIRTY_MAX, Relevance.CAN),
        (200_000, {**DIRTY_MAX, "zfs_dirty_data_sync_percent": "50"}, Relevance.CANNOT),
        (1, {}, Relevance.NOT_KNOWN),
    ],
    ids=["below the least threshold", "at it", "of another threshold", "limit unknown"],
)
def test_dirty_data_has_thresholds_below_the_one_that_delays(
    tmp_path: Path, dirty: int, parameters: Mapping[str, str], relevance: Relevance
) -> None:
    groups = (txgs((7, 5.0, 0.1)), txgs((7, 5.0, 0.1), (8, 1.0, 0.2, dirty)))
    one = found(tmp_path / "r", ends={**waits(0), "kstat txgs": groups})
    assert judged(one, parameters)["zfs_dirty_data_max"].relevance is relevance


def test_groups_of_a_pool_at_rest_do_not_speak_for_those_with_data(tmp_path: Path) -> None:
    before = (7, 5.0, 0.1)
    rest, full = (8, 5.0, 0.1, 4096), (9, 0.3, 0.2, 100_000_000)
    setting = judged(found(tmp_path / "r", ends={"kstat txgs": (txgs(before), txgs(rest, full))}))
    assert setting["zfs_txg_timeout"].relevance is Relevance.CANNOT
    assert setting["zfs_txg_timeout"].evidence["open_s"] == pytest.approx(0.3, rel=0.01)


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
        assert settings[name].cause.code is Code.FUSE_NO_MODULE
    assert settings["number of vdevs"].relevance is Relevance.CAN, "8 wait at the device, 1.3 pass"


def test_reads_below_a_write_are_what_a_cache_might_answer(tmp_path: Path) -> None:
    dry = judged(found(tmp_path / "a", text=iostat(active=1, pending=0)))["primarycache"]
    read = judged(found(tmp_path / "b", text=iostat(active=1, pending=0, reads=500)))
    assert dry.relevance is Relevance.CANNOT
    assert read["primarycache"].relevance is Relevance.CAN


def test_an_object_that_no_request_comes_near(tmp_path: Path) -> None:
    setting = judged(found(tmp_path / "r"))["object size of the image"]
    assert setting.relevance is Relevance.CANNOT
    numbers = setting.evidence
    assert numbers["object_bytes"] / numbers["mean_size_bytes"] == pytest.approx(381, rel=0.01)


def test_sync_matters_where_it_is_asked_for(tmp_path: Path) -> None:
    standard = judged(found(tmp_path / "a", sync="standard"))["sync, logbias"]
    always = judged(found(tmp_path / "b", sync="always"))["sync, logbias"]
    assert (standard.relevance, always.relevance) == (Relevance.CANNOT, Relevance.CAN)


@pytest.mark.parametrize(
    ("value", "relevance"),
    [("off", Relevance.CANNOT), ("lz4", Relevance.CANNOT), ("gzip-9", Relevance.NOT_KNOWN)],
)
def test_compression_costs_where_it_does_not_give_up(
    tmp_path: Path, value: str, relevance: Relevance
) -> None:
    setting = judged(found(tmp_path / "r", compression=value))["compression"]
    assert setting.relevance is relevance


def test_the_block_size_of_a_volume_is_called_so(tmp_path: Path) -> None:
    volume = Layer(kind=LayerKind.BLOCK, name="zd0", devices=("zd0",), facts={"type": "zvol"})
    run = stream_run(tmp_path / "r", {"zfs": ((volume, *stack(8192)), [SLOW])})
    names = judged(trial_layers(run.trials[0], run.stacks["zfs"]))
    assert "volblocksize" in names
    assert "recordsize" not in names


def test_an_image_in_stripes_is_judged_by_the_stripe_unit(tmp_path: Path) -> None:
    layers = [
        one.model_copy(
            update={
                "facts": {**one.facts, "stripe_unit_bytes": "16384", "stripe_count": "8"},
            }
        )
        if one.kind is LayerKind.IMAGE
        else one
        for one in stack(8192)
    ]
    run = stream_run(tmp_path / "r", {"zfs": (layers, [SLOW])})
    setting = judged(trial_layers(run.trials[0], run.stacks["zfs"]))["object size of the image"]
    assert setting.relevance is Relevance.CAN
    assert setting.evidence["object_bytes"] == 16384


def test_several_requests_in_flight_may_all_be_of_one_object(tmp_path: Path) -> None:
    many = SLOW | {"latency_s": 12e-3}
    run = stream_run(tmp_path / "r", {"zfs": (stack(8192), [many])})
    setting = judged(trial_layers(run.trials[0], run.stacks["zfs"]))["object size of the image"]
    assert setting.relevance is Relevance.NOT_KNOWN
    assert setting.evidence["in_flight"] == pytest.approx(13.1, rel=0.01)


def test_every_setting_has_words_and_finite_numbers(tmp_path: Path) -> None:
    one = found(tmp_path / "r", text=iostat(active=3, pending=0))
    for setting in judged(one).values():
        assert words(setting.cause).endswith(".")
        assert all(value == value and abs(value) < 1e18 for value in setting.evidence.values())


def test_zpool_iostat_and_the_device_agree(tmp_path: Path) -> None:
    one = found(tmp_path / "r", text=iostat(active=3, pending=0))
    step = next(step for step in one.steps if (step.above, step.below) == (1, 2))
    assert step.bytes_ratio == pytest.approx(1, abs=0.001)
    assert step.operations_ratio == pytest.approx(1.09, abs=0.001)
