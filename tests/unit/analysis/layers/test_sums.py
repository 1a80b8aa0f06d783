"""Sums of bytes between layers: correct stacks must not be flagged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.analysis.layers.facts import Code, fact
from leadline.analysis.layers.model import Figure, Flow, LayerFlow
from leadline.analysis.layers.steps import Between, Evidence, Step, find_reasons, may_do_more
from leadline.analysis.layers.study import CellLayers, layer_study
from leadline.analysis.layers.zfs import write_factor
from leadline.archive import layout
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op
from leadline.plan.models import Cell
from leadline.plan.workload import Pattern
from leadline.report.pages.layer_words import words
from tests.unit.analysis.layers.layer_archives import (
    EXT4,
    LOOP,
    READ_BYTES,
    READS,
    SECONDS,
    disk_run,
    lines,
    machine,
    stamp,
    with_stack,
)
from tests.unit.analysis.layers.streams import FUSE, IMAGE, POOL, evidence, stream_cell, zfs
from tests.unit.audit.audit_archives import Stored, build, cell

MIB = 1 << 20


def codes(step: Step) -> list[Code]:
    assert all(words(reason) for reason in step.reasons), "a template lacks no value"
    return [reason.code for reason in step.reasons]


HEAD = (
    "              capacity     operations     bandwidth    disk_wait\n"
    "pool        alloc   free   read  write   read  write   read  write\n"
    "----------  -----  -----  -----  -----  -----  -----  -----  -----\n"
)
SLOW = {"throughput_bps": 12e6, "size": 12_000.0, "latency_s": 1.2e-3}


def as_read(ratio: float = 1.0) -> tuple[float, ...]:
    return (READS, READ_BYTES * ratio // 512 * 512, 8 * SECONDS * 1e3, 0, 0, 0)


def two_disks(
    folder: Path,
    upper: Layer,
    ratio: float,
    *,
    lower: str = "sda",
    one: Cell | None = None,
) -> Step:
    """The step from a device to the one below it, which moves so many times the bytes."""
    below = Layer(kind=LayerKind.BLOCK, name=lower, devices=(lower,), facts={"type": "disk"})
    run = disk_run(folder, as_read(), one=one, layers=(EXT4, upper, below))
    high, low = as_read(), as_read(ratio)
    for trial in run.trial_folders:
        samples = [
            machine(
                float(second),
                {
                    upper.devices[0]: [value * second / 5 for value in high],
                    lower: [value * second / 5 for value in low],
                },
            )
            for second in range(6)
        ]
        lines(trial, layout.RESOURCES, samples)
    (found,) = layer_study(run).cells
    return next(step for step in found.median.steps if step.above == 2)


def device(name: str, **facts: str) -> Layer:
    return Layer(kind=LayerKind.BLOCK, name=name, devices=(name,), facts=facts)


@pytest.mark.parametrize(
    ("upper", "ratio", "one_to_one", "adds_up", "reason"),
    [
        (device("sda3", type="partition"), 1.0, True, True, None),
        (device("sda3", type="partition"), 1.7, True, None, Code.PARTITION),
        (device("sda3", type="partition"), 0.7, True, False, Code.NO_REASON),
        (device("dm-0", type="dm", mapping="crypt"), 1.2, True, False, Code.NO_REASON),
        (device("dm-0", type="dm", mapping="lvm"), 2.0, False, None, Code.DEVICE_MAPPER),
        (device("md0", type="raid", level="raid5"), 1.4, False, None, Code.RAID_READS),
        (device("loop3", type="loop", direct_io="no"), 0.2, False, None, Code.LOOP_READS),
        (device("loop3", type="loop", direct_io="yes"), 0.2, True, False, Code.NO_REASON),
    ],
    ids=lambda value: value.name if isinstance(value, Layer) else None,
)
def test_devices_that_lie_on_others(
    tmp_path: Path,
    upper: Layer,
    ratio: float,
    one_to_one: bool,
    adds_up: bool | None,
    reason: Code | None,
) -> None:
    step = two_disks(tmp_path / "r", upper, ratio)
    assert (step.one_to_one, step.adds_up) == (one_to_one, adds_up)
    assert reason in [None, *codes(step)]
    assert (reason is None) is (step.reasons == ())


def bursts(device_name: str, per_second: Sequence[float]) -> list[dict[str, object]]:
    """A disk that reads so many bytes in each second."""
    until = [sum(per_second[:second]) for second in range(len(per_second) + 1)]
    return [
        machine(float(second), {device_name: (total // 4096, total, second, 0, 0, 0)})
        for second, total in enumerate(until)
    ]


@pytest.mark.parametrize(
    ("seconds", "adds_up"),
    [
        # The engine read 318 MB/s for 4 s behind a ramp of 3.
        ([318e6] * 8, True),
        ([400e6] * 8, False),
        # A second of 1.27 GB at the end of the window: within it or after it, unknown.
        ([0, 0, 0, 0, 0, 0, 0, 1.27e9], None),
        # A fifth of what the engine read, wherever the window lies.
        ([10e6, 90e6, 10e6, 90e6, 10e6, 90e6, 10e6, 90e6], False),
    ],
    ids=["even", "even and other", "a burst at an end", "bursts that are far too small"],
)
def test_a_short_window_behind_a_ramp(
    tmp_path: Path, seconds: Sequence[float], adds_up: bool | None
) -> None:
    plain = cell()
    workload = plain.workload.model_copy(update={"ramp_s": 3.0})
    ramping = plain.model_copy(update={"workload": workload})
    run = disk_run(tmp_path / "r", as_read(), one=ramping)
    lines(run.trial_folders[0], layout.RESOURCES, bursts("loop7", seconds))
    (found,) = layer_study(run).cells
    step = next(one for one in found.median.steps if one.op is Op.READ)
    assert step.adds_up is adds_up
    if adds_up is None:
        assert step.open_for == "other seconds"
        assert codes(step)[0] is Code.WINDOWS_EXPLAIN
        assert step.bytes_ratio_least is not None
        assert step.bytes_ratio_most is not None
        assert step.bytes_ratio_least <= 1 <= step.bytes_ratio_most


def test_phases_of_which_the_seconds_are_not_known_are_not_called_wrong(tmp_path: Path) -> None:
    """Two phases behind ramps, the second of which begins when the first has ended."""
    plain = cell()
    first, second = (
        plain.workload.phases[0].model_copy(update={"name": name, "pattern": pattern})
        for name, pattern in (("w", Pattern.WRITE), ("p", Pattern.RANDREAD))
    )
    workload = plain.workload.model_copy(update={"ramp_s": 3.0, "phases": (first, second)})
    run = disk_run(
        tmp_path / "r",
        as_read(2.0),
        one=plain.model_copy(update={"workload": workload}),
        seconds=15,
    )
    (found,) = layer_study(run).cells
    step = next(one for one in found.median.steps if one.op is Op.READ)
    assert step.one_to_one
    assert step.difference is not None
    assert abs(step.difference) > 0.05
    assert (step.adds_up, step.open_for) == (None, "other seconds")


# --- ZFS on several vdevs ------------------------------------------------------------------------


def table(rates: Sequence[tuple[str, float]]) -> str:
    """A block: rows by name as it is indented, and what each writes per second."""
    total = sum(rate for name, rate in rates if name.startswith("    "))
    rows = [("tank", total or sum(rate for _, rate in rates)), *rates]
    return HEAD + "".join(
        f"{name:<16}  1 1 0 {rate / 12_000:.0f} 0 {rate:.0f} 0 1300000\n"
        if rate >= 0
        else f"{name:<16}  - - - - - - - -\n"
        for name, rate in rows
    )


def pool_of(
    folder: Path,
    vdevs: Sequence[str],
    printed: Sequence[str],
    disk_rates: Sequence[float],
    *,
    ends_s: float = 10.0,
    begins_s: float = 0.0,
    image: bool = False,
    **facts: str,
) -> CellLayers:
    """A stream of ten seconds on vdevs of which each writes `disk_rates` in each second, by the
    disks' counters; `printed` is the output of `zpool iostat`."""
    top = zfs(131072, **facts).model_copy(update={"devices": tuple(vdevs)})
    layers = (top, Layer(kind=LayerKind.BLOCK, name=", ".join(vdevs), devices=tuple(vdevs)))
    if image:
        layers = (*layers, FUSE, IMAGE, POOL)
    record = {"engine": "zfs stream", "engine_version": "2.3"}
    stored = [Stored(output=None, record=record)]
    run = with_stack(build(folder, {"z": (stream_cell("z"), stored)}), {"z": layers})
    (trial,) = run.trial_folders
    evidence(trial, **SLOW)
    until = [sum(disk_rates[:second]) for second in range(len(disk_rates) + 1)]
    samples = [
        machine(float(second), dict.fromkeys(vdevs, (0, 0, 0, total // 12000, total, second)))
        for second, total in enumerate(until)
    ]
    lines(trial, layout.RESOURCES, samples)
    (trial / layout.ZPOOL_IOSTAT).write_text(
        "# zpool iostat -v -l -q -p -y tank 1\n" + "".join(printed)
    )
    entries = [
        {**stamp(at), "pool": "tank", "asked": "kstat zil", "error": "none"}
        for at in (begins_s, ends_s)
    ]
    lines(trial, layout.ZFS, entries)
    (found,) = layer_study(run).cells
    return found


def to_devices(found: CellLayers) -> Step:
    return next(step for step in found.median.steps if (step.above, step.op) == (1, Op.WRITE))


def test_all_sides_of_a_mirror_add_up_and_its_copies_are_a_reason(tmp_path: Path) -> None:
    rows = [("  mirror-0", 24e6), ("    sda", 12e6), ("    sdb", 12e6)]
    layers = "1 x mirror of 2"
    one = pool_of(tmp_path / "r", ["sda", "sdb"], [table(rows)] * 10, [12e6] * 10, layout=layers)
    assert to_devices(one).adds_up is True
    above = next(step for step in one.median.steps if (step.above, step.op) == (0, Op.WRITE))
    assert above.adds_up is None
    assert above.bytes_ratio == pytest.approx(2, rel=0.01)
    assert above.reasons[0] == fact(Code.VDEV_COPIES, times=2.0, layout="1 x mirror of 2")


def test_a_log_device_is_none_of_those_that_hold_data(tmp_path: Path) -> None:
    rows = [("  sda", 12e6), ("logs", -1.0), ("  nvme0n1", 30e6)]
    one = pool_of(tmp_path / "r", ["sda"], [table(rows)] * 10, [12e6] * 10)
    step = to_devices(one)
    assert step.adds_up is True
    notes = one.median.layers[1].notes
    (logs,) = (note.values for note in notes if note.code is Code.ZPOOL_GROUP)
    assert logs == {"group": "logs", "read_bps": 0.0, "write_bps": 30e6}


def test_a_vdev_that_is_no_device_here_leaves_the_sum_open(tmp_path: Path) -> None:
    """A pool of a device and a file: what the file gets is not in the device's counters."""
    rows = [("  sda", 12e6), ("  /pool/file", 12e6)]
    step = to_devices(pool_of(tmp_path / "r", ["sda"], [table(rows)] * 10, [12e6] * 10))
    assert not step.one_to_one
    assert step.adds_up is None


def test_a_group_that_zpool_iostat_did_not_see_is_no_contradiction(tmp_path: Path) -> None:
    """Ten seconds were watched, six whole ones printed: the group of 96 MB of the last second came
    behind them, the one of 24 MB was seen."""
    printed = [table([("  sda", 24e6 if second == 2 else 0.0)]) for second in range(6)]
    disk = [0, 0, 0, 24e6, 0, 0, 0, 0, 0, 96e6]
    step = to_devices(pool_of(tmp_path / "r", ["sda"], printed, disk))
    assert step.difference == pytest.approx(2, abs=0.01), "three times the printed rate"
    assert (step.adds_up, step.open_for) == (None, "other seconds")
    windows = step.reasons[0].values
    assert (windows["length_s"], windows["late_s"]) == (6, pytest.approx(4))


def test_seconds_that_took_longer_are_no_contradiction(tmp_path: Path) -> None:
    """A machine so busy that each of its seconds took 1.4: rates are right, the sum is not."""
    printed = [table([("  sda", 12e6)])] * 7
    step = to_devices(pool_of(tmp_path / "r", ["sda"], printed, [12e6] * 10))
    assert step.adds_up is not False


def test_what_no_window_accounts_for_is_called_wrong(tmp_path: Path) -> None:
    printed = [table([("  sda", 12e6)])] * 10
    step = to_devices(pool_of(tmp_path / "r", ["sda"], printed, [24e6] * 10))
    assert step.adds_up is False
    assert step.bytes_ratio_least is not None
    assert step.bytes_ratio_least > 1.5


@pytest.mark.parametrize(("late_s", "adds_up"), [(0.0, True), (3.0, True)])
def test_an_even_load_is_judged_though_seconds_are_missing(
    tmp_path: Path, late_s: float, adds_up: bool
) -> None:
    printed = [table([("  sda", 12e6)])] * 10
    step = to_devices(pool_of(tmp_path / "r", ["sda"], printed, [12e6] * 14, ends_s=10 + late_s))
    assert step.adds_up is adds_up


@pytest.mark.parametrize(
    ("ratio", "adds_up", "open_for"),
    [(1.0, True, None), (0.7, None, "cached"), (1.6, None, "others too")],
)
def test_a_pool_below_a_mapped_image(
    tmp_path: Path, ratio: float, adds_up: bool | None, open_for: str
) -> None:
    """What was never written is not asked of the OSDs; they count all clients."""
    image = Layer(kind=LayerKind.IMAGE, name="rep3/x", facts={"client": "krbd"})
    mapped = LOOP.model_copy(update={"facts": {"type": "rbd"}})
    run = disk_run(tmp_path / "r", as_read(), layers=(mapped, image, POOL))
    served = int(READ_BYTES * ratio)
    entries = [
        {
            **stamp(float(at)),
            "osds": {
                "0": {
                    "osd.op_r": done * READS,
                    "osd.op_out_bytes": done * served,
                    "osd.op_r_latency": [done * READS, done * 1.0],
                }
            },
        }
        for at, done in ((0, 0), (5, 1))
    ]
    lines(run.trial_folders[0], layout.CEPH_COUNTERS, entries)
    (found,) = layer_study(run).cells
    step = found.median.steps[-1]
    assert (step.one_to_one, step.adds_up, step.open_for) == (True, adds_up, open_for)
    assert step.difference == pytest.approx(ratio - 1, abs=0.01)


@pytest.mark.parametrize(
    ("fsyncs", "added", "open_"),
    [(True, 100 * MIB, True), (False, MIB, True), (False, MIB + 4096, False)],
    ids=["a commit for each flush", "a few commits", "more than these"],
)
def test_a_journal_is_no_contradiction(
    tmp_path: Path, fsyncs: bool, added: int, open_: bool
) -> None:
    """Writes on ext4 that become more on its device."""
    written = 4 * MIB
    run = disk_run(tmp_path / "r", (0, 0, 0, 1024, written + added, 100))
    above, filesystem, below = layer_study(run).cells[0].median.layers
    between = Between(
        op=Op.WRITE,
        upper=above,
        lower=below,
        through=(filesystem,),
        ratio=(written + added) / written,
        one_to_one=True,
    )
    assert may_do_more(between, Evidence(fsyncs=fsyncs)) is open_
    assert find_reasons(between, Evidence(fsyncs=fsyncs))[0].code is Code.FILESYSTEM_JOURNAL
    reads = replace(between, op=Op.READ)
    assert not may_do_more(reads, Evidence(fsyncs=fsyncs)), "of reads it says nothing"


@pytest.mark.parametrize(
    ("shape", "times"),
    [
        ("1 x disk", 1.0),
        ("3 x disk, log: 1 x mirror of 2", 1.0),
        ("2 x mirror of 3", 3.0),
        ("1 x raidz2 of 6", 1.5),
        ("1 x raidz of 3, cache: 1 x disk", 1.5),
        ("1 x draid2:4d:11c:1s of 11", 1.5),
        ("1 x mirror of 2, 1 x disk", None),
        ("1 x replacing of 2", None),
        ("", None),
    ],
)
def test_how_often_a_byte_is_written(shape: str, times: float | None) -> None:
    assert write_factor(shape) == times


@pytest.mark.parametrize(
    ("facts", "block", "twice"),
    [
        ({}, 16 << 10, True),
        ({}, 64 << 10, False),
        ({"logbias": "throughput"}, 16 << 10, False),
        ({"layout": "1 x disk, log: 1 x disk"}, 16 << 10, False),
        ({"sync": "disabled"}, 16 << 10, False),
    ],
)
def test_what_is_synchronous_is_written_twice_if_it_goes_through_the_intent_log(
    facts: dict[str, str], block: int, twice: bool
) -> None:
    moved = Flow(op=Op.WRITE, bandwidth=Figure(value=2e6, source="test"))
    below = LayerFlow(kind=LayerKind.ZFS, name="tank", facts=facts, flows={Op.WRITE: moved})
    between = Between(
        op=Op.WRITE,
        upper=LayerFlow(kind=None, name="fio"),
        lower=below,
        through=(),
        ratio=2.0,
        one_to_one=False,
    )
    reasons = find_reasons(between, Evidence(fsyncs=True, block_bytes=block))
    assert (Code.INTENT_LOG in [reason.code for reason in reasons]) is twice
