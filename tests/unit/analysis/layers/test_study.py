"""Layers of whole runs, from archives on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.analysis.layers.explain import Explanation
from leadline.analysis.layers.facts import Code, fact
from leadline.analysis.layers.steps import TOLERANCE
from leadline.analysis.layers.study import LayerStudy, layer_study
from leadline.analysis.layers.windows import Basis
from leadline.archive import layout
from leadline.errors import LeadlineError
from leadline.findings import Finding, Severity
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op
from leadline.plan.workload import Pattern
from leadline.report.pages.layer_words import explanation
from tests.unit.analysis.layers.layer_archives import (
    EXT4,
    LOOP,
    READ_BYTES,
    READS,
    SECONDS,
    disk_run,
    lines,
    stamp,
    with_stack,
)
from tests.unit.analysis.layers.streams import stack, stream_run
from tests.unit.audit.audit_archives import Stored, build, cell

MIB = 1 << 20
# The issue's own example: 10.8 KiB x 1.3 / 1.2 ms = 11.4 MiB/s.
SLOW = {"throughput_bps": 11.4 * MIB, "size": 10.8 * 1024, "latency_s": 1.2e-3}


def as_read(bytes_ratio: float = 1.0, requests_ratio: float = 1.0) -> tuple[float, ...]:
    """The device's totals where it reads so many times what fio did, 8 in flight."""
    read_bytes = READ_BYTES * bytes_ratio // 512 * 512
    return (READS * requests_ratio, read_bytes, 8 * SECONDS * 1e3, 0, 0, 0)


def test_fio_on_ext4_on_a_loop_device_adds_up_in_every_trial(tmp_path: Path) -> None:
    (one,) = layer_study(disk_run(tmp_path / "r", as_read(), trials=3)).cells
    engine, filesystem, device = one.median.layers
    assert engine.flows[Op.READ].rate.value == pytest.approx(READS / SECONDS, rel=1e-3)
    assert filesystem.unobserved
    flow = device.flows[Op.READ]
    assert device.basis is Basis.TOTALS
    assert flow.rate.value == pytest.approx(READS / SECONDS, rel=1e-3)
    assert flow.mean_size == pytest.approx(4096, rel=1e-3)
    assert flow.in_flight.value == pytest.approx(8, rel=1e-3)
    assert flow.latency.value == pytest.approx(8 * SECONDS / READS, rel=1e-3)
    (step,) = one.median.steps
    assert (step.above, step.below, step.through) == (0, 2, ("filesystem ext4",))
    assert step.adds_up
    assert step.difference == pytest.approx(0, abs=0.001)
    assert step.reasons == ()
    assert [part.adds_up for part in one.sums] == [True] * 3
    assert not step.splits
    assert step.operations_ratio >= 0.95
    assert step.in_flight_ratio == pytest.approx(0.5, rel=0.01)  # fio had 16 in flight


@pytest.mark.parametrize(
    ("ratio", "adds_up"),
    [(1 + TOLERANCE - 0.002, True), (1 + TOLERANCE + 0.002, False), (0.94, False), (0.951, True)],
)
def test_sums_hold_within_the_tolerance_only(tmp_path: Path, ratio: float, adds_up: bool) -> None:
    (one,) = layer_study(disk_run(tmp_path / "r", as_read(ratio))).cells
    (step,) = one.median.steps
    assert step.adds_up is adds_up
    assert bool(step.reasons) is not adds_up, "a difference has a reason, or none is said to be"


def test_requests_that_are_split_or_merged(tmp_path: Path) -> None:
    for number, (ratio, splits, merges) in enumerate(((4.0, True, False), (0.25, False, True))):
        run = disk_run(tmp_path / f"r{number}", as_read(requests_ratio=ratio))
        (step,) = layer_study(run).cells[0].median.steps
        assert (step.splits, step.operations_ratio < 0.95) == (splits, merges)
        assert step.operations_ratio == pytest.approx(ratio, rel=1e-3)
        assert step.size_ratio == pytest.approx(1 / ratio, rel=1e-3)
        assert step.adds_up


def test_buffered_reads_below_are_not_expected_to_agree(tmp_path: Path) -> None:
    one = cell()
    workload = one.workload.model_copy(update={"direct": False})
    buffered = one.model_copy(update={"workload": workload})
    run = disk_run(tmp_path / "r", as_read(0.02), one=buffered)
    (step,) = layer_study(run).cells[0].median.steps
    assert not step.one_to_one
    assert step.adds_up is None
    assert step.reasons[0].code is Code.BUFFERED_READS


def test_a_device_that_others_use_is_marked(tmp_path: Path) -> None:
    root = EXT4.model_copy(update={"facts": {"mount_point": "/"}})
    run = disk_run(tmp_path / "r", as_read(1.5), layers=(root, LOOP))
    one = layer_study(run).cells[0]
    shared = one.median.layers[2].shared
    assert shared is not None
    assert shared.code is Code.SYSTEM_DEVICE
    (step,) = one.median.steps
    assert (step.adds_up, step.open_for) == (None, "others too")
    assert step.reasons[0].code is Code.OTHER_USERS
    fewer = disk_run(tmp_path / "f", as_read(0.8), layers=(root, LOOP))
    assert layer_study(fewer).cells[0].median.steps[0].adds_up is False, "others take nothing away"


def test_io_of_the_lower_layer_alone_has_its_reason(tmp_path: Path) -> None:
    totals = (*as_read()[:3], 100, 100 * 4096, 50)
    one = layer_study(disk_run(tmp_path / "r", totals)).cells[0]
    writes = next(step for step in one.median.steps if step.op is Op.WRITE)
    assert writes.bytes_ratio is None
    assert writes.adds_up is None
    assert writes.reasons[0].code is Code.FILESYSTEM_METADATA
    assert [part.op for part in one.sums] == [Op.READ]


def test_what_was_not_sampled_stays_missing(tmp_path: Path) -> None:
    (one,) = layer_study(disk_run(tmp_path / "r")).cells
    device = one.median.layers[2]
    assert device.unobserved == fact(Code.NO_MACHINE_SAMPLES)
    assert device.flows == {}
    assert one.median.steps == ()
    assert one.causes == Explanation(
        little=None, stalls=None, lost_at=None, idle_at=None, copies=None
    )


def test_a_device_that_the_samples_lack_is_not_taken_for_idle(tmp_path: Path) -> None:
    other = LOOP.model_copy(update={"name": "nbd0", "devices": ("nbd0",)})
    (one,) = layer_study(disk_run(tmp_path / "r", as_read(), layers=(EXT4, other))).cells
    assert one.median.layers[2].unobserved == fact(Code.NO_DEVICE_COUNTERS, devices="nbd0")


def test_a_ramp_is_left_out_of_both_sides(tmp_path: Path) -> None:
    """The device does twice as much in all, in twice the time: the same rate."""
    one = cell()
    ramping = one.model_copy(update={"workload": one.workload.model_copy(update={"ramp_s": 3.5})})
    totals = tuple(2 * value for value in as_read())
    run = disk_run(tmp_path / "r", totals, one=ramping, seconds=8)
    (found,) = layer_study(run).cells
    assert found.median.layers[2].basis is Basis.WINDOW
    (step,) = found.median.steps
    assert step.difference == pytest.approx(0, abs=0.01)
    assert step.adds_up is True, "of an even load four seconds are enough"


def test_damaged_records_are_noted_and_the_rest_is_used(tmp_path: Path) -> None:
    run = disk_run(tmp_path / "r", as_read())
    (run.trial_folders[0] / layout.BLOCK_REQUESTS).write_text("{}\n")
    (one,) = layer_study(run).cells
    assert one.median.steps[0].adds_up
    assert any("line 1" in str(note.values["text"]) for note in one.median.notes)


def test_sizes_come_from_the_tracepoint(tmp_path: Path) -> None:
    run = disk_run(tmp_path / "r", as_read())
    entry = {
        **stamp(1.0),
        "device": "loop7",
        "seconds": 0.2,
        "lost": 3,
        "reads": {"4096": 99, "131072": 1},
        "writes": {},
    }
    lines(run.trial_folders[0], layout.BLOCK_REQUESTS, [entry])
    (one,) = layer_study(run).cells
    sizes = one.median.layers[2].flows[Op.READ].sizes
    assert sizes is not None
    assert (sizes.exact, sizes.lost, sizes.requests) == (True, 3, 100)
    assert sizes.quantile_bytes(0.5) == 4096


# --- ZFS on an image ----------------------------------------------------------------------------


def zfs_study(folder: Path, **changes: float) -> LayerStudy:
    return layer_study(stream_run(folder, {"zfs-8k": (stack(8192), [SLOW | changes])}))


def test_receive_on_an_image_is_explained_by_littles_law(tmp_path: Path) -> None:
    (one,) = zfs_study(tmp_path / "r").cells
    little = one.causes.little
    assert little is not None
    assert one.median.layers[little.layer].kind is LayerKind.IMAGE
    assert little.size == pytest.approx(10.8 * 1024, rel=0.01)
    assert little.in_flight == pytest.approx(1.3, rel=0.01)
    assert little.latency == pytest.approx(1.2e-3, rel=0.01)
    assert little.closes
    assert little.requests_per_object == pytest.approx(379, rel=0.01)
    assert little.median_size == 8192
    assert little.median_at is not None
    assert one.median.layers[little.median_at].name == "loop7"
    assert little.object_bytes == 4 * MIB


def test_all_layers_below_a_stream_agree(tmp_path: Path) -> None:
    (one,) = zfs_study(tmp_path / "r").cells
    sums = {(part.above, part.below): part.adds_up for part in one.sums}
    assert sums == {
        ("block loop7", "image rep2/ours"): True,
        ("image rep2/ours", "pool rep2"): None,  # of other seconds: OSDs are asked twice
    }
    fuse = next(layer for layer in one.median.layers if layer.kind is LayerKind.FUSE)
    assert fuse.in_flight.value == 3
    assert one.median.copies == pytest.approx(2, rel=0.01)
    pool = one.median.layers[-1].flows[Op.WRITE]
    assert pool.sizes is not None
    assert not pool.sizes.exact


def test_where_concurrency_is_lost(tmp_path: Path) -> None:
    (one,) = zfs_study(tmp_path / "r").cells
    lost = one.causes.lost_at
    assert lost is not None
    assert one.median.layers[lost.above].kind is LayerKind.BLOCK
    assert lost.in_flight_ratio == pytest.approx(1.3 / 8, rel=0.02)
    assert "fuse" in " ".join(lost.through)


@pytest.mark.parametrize(
    ("bytes_ratio", "requests_ratio", "in_flight"),
    [(0.001, 0.001, 0.02), (1.0, 0.125, 2.0)],
    ids=["a cache answers", "requests become one"],
)
def test_what_does_not_come_down_is_not_lost(
    tmp_path: Path, bytes_ratio: float, requests_ratio: float, in_flight: float
) -> None:
    """fio has 16 in flight."""
    spent_ms = in_flight * SECONDS * 1e3
    totals = (READS * requests_ratio, READ_BYTES * bytes_ratio // 512 * 512, spent_ms, 0, 0, 0)
    (one,) = layer_study(disk_run(tmp_path / "r", totals)).cells
    assert one.causes.lost_at is None


def test_a_small_part_of_what_the_engine_read_explains_nothing(tmp_path: Path) -> None:
    (one,) = layer_study(disk_run(tmp_path / "r", as_read(0.25, 0.25))).cells
    little = one.causes.little
    assert little is not None
    assert little.difference == pytest.approx(-0.75, abs=0.01)
    assert little.closes is False


@pytest.mark.parametrize(
    ("for_receiver_s", "for_sender_s", "slower"),
    [(7.0, 0.2, "receiver"), (0.3, 6.0, "sender"), (2.0, 2.5, ""), (3.0, 0.2, "")],
)
def test_stalls_of_the_pipe_show_the_slower_end(
    tmp_path: Path, for_receiver_s: float, for_sender_s: float, slower: str
) -> None:
    changes = {"for_receiver_s": for_receiver_s, "for_sender_s": for_sender_s}
    (one,) = zfs_study(tmp_path / "r", **changes).cells
    assert one.causes.stalls is not None
    assert one.causes.stalls.slower == slower
    assert one.causes.stalls.for_receiver_share == pytest.approx(for_receiver_s / 10)


@pytest.mark.parametrize(
    ("for_receiver_s", "for_sender_s", "for_link_s", "slower"),
    [
        (0.5, 0.2, 8.0, "link"),
        (8.0, 0.2, 0.5, "receiver"),
        (0.2, 8.0, 0.5, "sender"),
        (4.0, 0.2, 5.5, ""),
    ],
)
def test_stalls_of_both_pipes_show_the_slower_part_of_a_route(
    tmp_path: Path, for_receiver_s: float, for_sender_s: float, for_link_s: float, slower: str
) -> None:
    changes = {
        "for_receiver_s": for_receiver_s,
        "for_sender_s": for_sender_s,
        "for_link_s": for_link_s,
    }
    (one,) = zfs_study(tmp_path / "r", **changes).cells
    stalls = one.causes.stalls
    assert stalls is not None
    assert (stalls.slower, stalls.host) == (slower, "backup")
    assert stalls.for_link_share == pytest.approx(for_link_s / 10)
    words = next(line for line in explanation(one) if "for the link to backup" in line)
    assert ("clearly limits" if not slower else f"The {slower} limits the stream") in words


def test_a_product_far_from_the_throughput_does_not_close(tmp_path: Path) -> None:
    run = stream_run(tmp_path / "r", {"zfs-8k": (stack(8192), [SLOW])})
    folder = run.trial_folders[0]
    record = (folder / "zfs-stream.json").read_text()
    whole = int(SLOW["throughput_bps"] * 10)
    assert f'"bytes": {whole}' in record
    (folder / "zfs-stream.json").write_text(
        record.replace(f'"bytes": {whole}', f'"bytes": {whole // 2}')
    )
    (one,) = layer_study(run).cells
    assert one.causes.little is not None
    assert one.causes.little.closes is False
    assert one.causes.little.difference == pytest.approx(1, abs=0.01)


def sweep(folder: Path, throughputs: dict[int, tuple[float, ...]]) -> LayerStudy:
    return layer_study(
        stream_run(
            folder,
            {
                f"zfs-{record}": (
                    stack(record),
                    [SLOW | {"throughput_bps": rate * MIB, "size": size} for rate in rates],
                )
                for record, rates in throughputs.items()
                for size in (float(record) / 2,)
            },
        )
    )


def test_cells_of_other_record_sizes_are_compared(tmp_path: Path) -> None:
    study = sweep(tmp_path / "r", {131072: (30.0, 33.0, 31.0), 8192: (10.0, 12.0, 11.0)})
    (found,) = study.sweeps
    assert [row.record_bytes for row in found.rows] == [8192, 131072]
    assert found.rows[0].throughputs == pytest.approx([10 * MIB, 12 * MIB, 11 * MIB])
    assert found.rows[0].throughput == pytest.approx(11 * MIB)
    assert found.rows[1].block_size == pytest.approx(65536, rel=0.01)
    recordsize = study.cells[0].settings[0]
    assert (recordsize.name, recordsize.relevance.value) == ("recordsize", "can matter")
    assert recordsize.cause.code is Code.SWEEP_SEPARATE
    assert recordsize.evidence["throughput_ratio"] == pytest.approx(31 / 11, rel=0.01)


def test_trials_that_overlap_do_not_make_the_record_size_matter(tmp_path: Path) -> None:
    study = sweep(tmp_path / "r", {8192: (10.0, 12.0), 131072: (11.0, 13.0)})
    assert study.cells[0].settings[0].relevance.value == "not known"  # sizes follow, rates do not
    far = sweep(tmp_path / "f", {8192: (10.0, 10.0, 40.0), 131072: (30.0, 30.0, 20.0)})
    assert far.cells[0].settings[0].relevance.value == "not known", "medians lie apart"
    alone = sweep(tmp_path / "a", {8192: (10.0,), 131072: (30.0,)})
    assert alone.cells[0].settings[0].relevance.value == "not known", "one trial each is not enough"


def test_datasets_that_differ_in_more_than_their_records_are_not_compared(tmp_path: Path) -> None:
    cells = {
        f"zfs-{record}": (stack(record, compression=how), [SLOW, SLOW])
        for record, how in ((8192, "off"), (131072, "zstd"))
    }
    assert layer_study(stream_run(tmp_path / "r", cells)).sweeps == ()


def refusal(target: str, **changes: object) -> Finding:
    found = Finding(
        code="cache-served-reads",
        severity=Severity.ERROR,
        target=target,
        message="a cache answered",
        remedy="read more than it holds",
    )
    return replace(found, **changes)


def test_refused_throughputs_leave_the_effect_of_the_record_size_unknown(
    tmp_path: Path,
) -> None:
    rates = {8192: (10.0, 12.0, 11.0), 32768: (20.0, 22.0, 21.0), 131072: (30.0, 33.0, 31.0)}
    run = sweep(tmp_path / "r", rates).run

    one = layer_study(run, [refusal("zfs-131072")])
    assert [cell.refused for cell in one.cells] == [(), (), ("cache-served-reads",)]
    assert [row.record_bytes for row in one.sweeps[0].usable] == [8192, 32768]
    setting = one.cells[0].settings[0]
    assert setting.relevance.value == "can matter", "two sizes are left"
    assert setting.evidence["throughput_ratio"] == pytest.approx(21 / 11, rel=0.01)

    two = layer_study(run, [refusal("zfs-131072"), refusal("zfs-8192")])
    setting = two.cells[0].settings[0]
    assert setting.relevance.value == "not known"
    assert setting.cause == fact(Code.SWEEP_REFUSED, rules="cache-served-reads")

    kept = layer_study(
        run,
        [
            refusal("zfs-8192", severity=Severity.WARNING),
            refusal("zfs-32768", latency_only=True),
            refusal("zfs-131072", workload="another"),
        ],
    )
    assert not any(cell.refused for cell in kept.cells), "only errors of the throughput refuse"


def test_a_cell_is_represented_by_its_median_trial(tmp_path: Path) -> None:
    study = sweep(tmp_path / "r", {8192: (10.0, 30.0, 12.0)})
    assert study.cells[0].median.trial.record.label == "t0003-1"
    assert study.sweeps == ()


# --- selection of cells -------------------------------------------------------------------------


def test_a_run_without_layers_says_what_is_missing(tmp_path: Path) -> None:
    run = build(tmp_path / "r", {"a": (cell(), [Stored()])})
    with pytest.raises(LeadlineError) as error:
        layer_study(run)
    assert error.value.kind.code == "no-layers"
    assert error.value.hint


def test_targets_without_layers_are_listed_as_missing(tmp_path: Path) -> None:
    cells = {"a": (cell(), [Stored()]), "b": (cell(target="other"), [Stored()])}
    run = with_stack(build(tmp_path / "r", cells), {"disk": (EXT4, LOOP)})
    study = layer_study(run)
    assert [one.target for one in study.cells] == ["disk"]
    assert study.missing == (fact(Code.NO_STACK, target="other"),)


def test_cells_are_chosen_by_name(tmp_path: Path) -> None:
    cells = {
        "a": (cell(), [Stored()]),
        "b": (cell("other", pattern=Pattern.RANDREAD), [Stored()]),
        "c": (cell("never"), [None]),
    }
    run = with_stack(build(tmp_path / "r", cells), {"disk": (EXT4, LOOP)})
    assert [one.workload for one in layer_study(run).cells] == ["randread", "other"]
    assert [one.workload for one in layer_study(run, workload="other").cells] == ["other"]
    assert layer_study(run, workload="never").missing == (fact(Code.NO_TRIAL, cell="disk · never"),)
    with pytest.raises(LeadlineError) as error:
        layer_study(run, target="nowhere")
    assert error.value.kind.code == "usage"


def test_layers_of_a_kind_without_counters_are_passed_through(tmp_path: Path) -> None:
    mount = Layer(kind=LayerKind.FUSE, name="/mnt/x", facts={})
    (one,) = layer_study(disk_run(tmp_path / "r", as_read(), layers=(mount, LOOP))).cells
    (step,) = one.median.steps
    assert step.through == ("fuse /mnt/x",)
    assert not step.one_to_one, "it is unknown what a process does with its requests"
