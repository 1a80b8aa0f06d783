"""The stages of volumes, computed from what an API server reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from leadline.archive.raw import derive, read_output, read_windows
from leadline.formats.result import FormatError
from leadline.formats.volume_lifecycle import (
    EVENTS_FILE,
    RECORD_FILE,
    TOOL,
    parse_volume_lifecycle,
    read_volume_lifecycle,
)
from leadline.metrics import STAGES, Metric, Op
from tests.unit import lifecycles
from tests.unit.lifecycles import SECONDS, Entry


def first(stage: Op, entries: list[Entry] | None = None, **fields: object) -> float:
    return lifecycles.report(entries, **fields).stages[stage][0].seconds


OF_GUESTS = (Op.VM_START, Op.VM_BOOT)


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage is not Op.READY])
def test_each_stage_takes_what_its_lines_say(stage: Op) -> None:
    entries = lifecycles.lines(guests=stage in OF_GUESTS)
    assert first(stage, entries) == pytest.approx(SECONDS[stage.value])


def test_stages_of_guests_are_not_in_a_trial_with_pods() -> None:
    assert not lifecycles.report().stages.keys() & set(OF_GUESTS)


def test_a_volume_of_a_guest_is_ready_when_the_guest_has_written() -> None:
    before = ("place", "provision", "bind", "attach", "mount", "vm-start", "vm-boot", "first-io")
    entries = lifecycles.lines(guests=True)
    assert first(Op.READY, entries) == pytest.approx(sum(SECONDS[stage] for stage in before))


def test_a_guest_that_never_reported_has_no_boot() -> None:
    entries = [one for one in lifecycles.lines(1, guests=True) if one["line"] != "first-io"]
    stages = lifecycles.report(entries, runner="vm").stages
    assert Op.VM_START in stages
    assert not stages.keys() & {Op.VM_BOOT, Op.FIRST_IO, Op.READY}


def test_a_volume_is_ready_when_its_first_io_is_done_on_this_clock() -> None:
    until_running = sum(
        SECONDS[stage] for stage in ("place", "provision", "bind", "attach", "mount")
    )
    # The pod answered in the middle of 40 ms, 50 ms after its start and 20 ms after its I/O.
    expected = until_running + 0.02 + 0.02 - (0.05 - SECONDS["first-io"])
    assert first(Op.READY) == pytest.approx(expected)


def test_a_class_that_binds_at_once_is_timed_from_the_request() -> None:
    assert first(Op.PROVISION, immediate=True) == pytest.approx(
        SECONDS["place"] + SECONDS["provision"]
    )


def test_reports_of_two_watches_in_the_other_order_are_no_negative_time() -> None:
    entries = lifecycles.lines(1)
    made = next(one for one in entries if one.get("kind") == "volume")
    made["at_s"] += SECONDS["bind"] + 0.001
    assert first(Op.BIND, entries) == 0


def test_a_stage_without_its_end_has_no_sample() -> None:
    entries = [one for one in lifecycles.lines(2) if one.get("kind") != "snapshot"]
    stages = lifecycles.report(entries).stages
    assert Op.SNAPSHOT not in stages
    assert len(stages[Op.EXPAND]) == 2


def test_a_volume_that_failed_is_in_no_figure_of_that_stage() -> None:
    failed = {"line": "failed", "at_s": 60.0, "role": "new", "volume": 2}
    entries = [*lifecycles.lines(3), {**failed, "stage": "expand", "reason": "no capacity"}]
    report = lifecycles.report(entries)
    assert [sample.volume for sample in report.stages[Op.EXPAND]] == [1, 3]
    assert [line.reason for line in report.failures[Op.EXPAND]] == ["no capacity"]
    assert len(report.stages[Op.CLONE]) == 3


def test_an_object_that_came_back_is_not_gone() -> None:
    entries = lifecycles.lines(1)
    last = max(one["at_s"] for one in entries)
    back = {"line": "seen", "at_s": last + 1, "role": "new", "volume": 1, "kind": "claim"}
    report = lifecycles.report([*entries, {**back, "change": "added", "facts": {}}])
    assert Op.DELETE not in report.stages


def test_the_order_of_lines_does_not_matter() -> None:
    entries = lifecycles.lines(3)
    assert lifecycles.report(entries[::-1]).stages == lifecycles.report(entries).stages


def test_the_offset_of_the_server_is_a_range() -> None:
    def offset(ahead_s: float) -> tuple[float, float]:
        entries = lifecycles.lines(4)
        for entry in entries:
            if "created_s" in entry:
                entry["created_s"] = float(int(lifecycles.BEGAN + entry["at_s"] + ahead_s))
        found = lifecycles.report(entries).server_offset_s
        assert found is not None
        return found

    for ahead_s in (-40.0, 0.0, 2.5):
        low, high = offset(ahead_s)
        assert low <= ahead_s <= high
        assert high - low < 1.1


def write(folder: Path, entries: list[Entry]) -> None:
    (folder / RECORD_FILE).write_bytes(orjson.dumps(lifecycles.record()))
    (folder / EVENTS_FILE).write_bytes(lifecycles.text_of(entries))


def test_as_an_output_each_stage_is_an_operation(tmp_path: Path) -> None:
    write(tmp_path, lifecycles.lines(25, guests=True))
    derived = derive(read_output(TOOL, tmp_path))
    assert [operation.op for operation in derived.operations] == list(STAGES)
    provision = derived.operations[1]
    assert sum(provision.histogram_counts) == 25
    assert provision.metrics[Metric.BANDWIDTH] is None
    assert provision.metrics[Metric.LATENCY_P50] is not None
    assert provision.metrics[Metric.LATENCY_P95] is None  # needs 200
    # From the first node that was chosen to the last volume.
    last = (SECONDS["place"] + SECONDS["provision"]) * 1.1**24
    assert provision.metrics[Metric.IOPS] == pytest.approx(25 / (last - SECONDS["place"]))
    assert read_windows(TOOL, tmp_path) == {}


def test_another_engine_has_no_report(tmp_path: Path) -> None:
    assert read_volume_lifecycle(tmp_path) is None
    with pytest.raises(FormatError, match="left no"):
        read_output(TOOL, tmp_path)


@pytest.mark.parametrize(
    ("change", "condition", "fact"),
    [
        (lambda record, lines: (b"", lines), "empty-result", "empty"),
        (lambda record, lines: (record, b""), "empty-result", "no volume got through"),
        (lambda record, lines: (record, lines + b"{"), "unreadable-result", "line"),
        (
            lambda record, lines: (record, b'{"line":"seen","at_s":-1}\n' + lines),
            "unreadable-result",
            "line 1",
        ),
        (
            lambda record, lines: (record.replace(b'"volumes":4', b'"volumes":0'), lines),
            "unreadable-result",
            "request.volumes",
        ),
    ],
)
def test_what_cannot_be_read_is_named(
    change: Callable[[bytes, bytes], tuple[bytes, bytes]], condition: str, fact: str
) -> None:
    record, lines = orjson.dumps(lifecycles.record()), lifecycles.text_of(lifecycles.lines(1))
    with pytest.raises(FormatError, match=fact) as raised:
        parse_volume_lifecycle(*change(record, lines))
    assert raised.value.condition == condition
