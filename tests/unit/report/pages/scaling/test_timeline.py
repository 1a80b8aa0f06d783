"""What machines did under each level: the trial that stands for it, second by second."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from leadline.formats.result import FormatError
from leadline.formats.watch_records import (
    CpuTicks,
    DiskCounters,
    GroupCounters,
    HostSample,
    InterfaceCounters,
    Role,
)
from leadline.report.curves import PageBudget
from leadline.report.document import Choices, LineChart, Section
from leadline.report.pages.scaling.sentences import named_curves
from leadline.report.pages.scaling.timeline import timeline_sections
from tests.unit.analysis.scaling.levels import Simulated
from tests.unit.report.pages.scaling.studies import run_of, saturating, study_of


def sample(machine: str, second: int, busy_share: float) -> HostSample:
    """100 ticks a second, of which `busy_share` were busy; a disk that is busy half of the time,
    a network with 1 MiB received each second, and a quota that is used up in a quarter of the
    periods."""
    return HostSample(
        at="",
        elapsed_s=float(second),
        machine=machine,
        roles=frozenset({Role.CLIENT}),
        clock_s=1000.0 + second,
        cores=1,
        hz=100,
        cpu=CpuTicks(
            total=100 * second, idle=round(100 * second * (1 - busy_share)), iowait=0,
            user=0, system=0, steal=0,
        ),
        disks={
            "vda": DiskCounters(
                reads=10 * second, reads_merged=0, read_bytes=0, read_ms=0, writes=0,
                writes_merged=0, write_bytes=0, write_ms=0,
                busy_ms=500 * second, queue_ms=0,
            )
        },
        interfaces={
            "eth0": InterfaceCounters(
                received_bytes=second << 20, received_packets=0, sent_bytes=second, sent_packets=0
            )
        },
        links_bps={},
        groups={
            "host-a": GroupCounters(
                periods=100 * second, throttled=25 * second, throttled_us=0, usage_us=0,
                quota_us=50_000, period_us=100_000,
            )
        },
        processes={},
        unread=(),
    )  # fmt: skip


def sampled(machines: int = 2, seconds: int = 5, **more: Any) -> Simulated:
    made = run_of(*saturating(**({"loads": (1, 2, 4)} | more)))
    for number, trial in enumerate(made.run.trials):
        trial.resources = tuple(
            sample(f"m{machine}", second, 0.2 + 0.1 * (number % 3))
            for second in range(seconds)
            for machine in range(machines)
        )
    return made


def sections(made: Simulated, budget: PageBudget | None = None) -> tuple[Section, ...]:
    curves = named_curves(study_of(made))
    return timeline_sections([(one.name, one.study) for one in curves], budget)


def charts(made: Simulated) -> list[LineChart]:
    (section,) = sections(made)
    assert section.folded
    return [block for block in section.blocks if isinstance(block, LineChart)]


def test_each_level_has_a_chart_of_every_kind_and_is_chosen_by_name() -> None:
    (section,) = sections(sampled())
    choices = section.blocks[0]
    assert isinstance(choices, Choices)
    assert len(choices.options) == 3
    assert [label.split(" · ")[-2] for _, label in choices.options] == [
        "c1-qd32x1", "c2-qd32x1", "c4-qd32x1",
    ]  # fmt: skip
    made = [block for block in section.blocks[1:] if isinstance(block, LineChart)]
    assert [one.title for one in made[:4]] == ["Processors", "Disks", "Network", "Processor quota"]
    assert [one.choice for one in made] == [value for value, _ in choices.options for _ in range(4)]


def test_the_values_are_those_of_the_counters() -> None:
    cpu, disk, network, quota = charts(sampled())[:4]
    for chart, value in ((disk, 0.5), (network, float(1 << 20)), (quota, 0.25)):
        assert [y for line in chart.lines for _, y in line.points] == pytest.approx([value] * 8)
    assert cpu.series == ("m0", "m1")
    assert disk.series == ("m0 vda", "m1 vda")
    assert [x for x, _ in cpu.lines[0].points] == [0.5, 1.5, 2.5, 3.5]
    assert cpu.y.high >= 1, "a share is seen against the whole"
    assert network.lines[0].texts[0] == "0 to 1 s: 1 MiB/s"


def test_it_is_the_trial_that_the_evidence_is_of() -> None:
    made = sampled()
    (study,) = study_of(made).curves
    shares = {one.record.label: 0.2 + 0.1 * (at % 3) for at, one in enumerate(made.run.trials)}
    expected = [shares[level.evidence.trial] for level in study.bottlenecks]
    drawn = [one for one in charts(made) if one.title == "Processors"]
    for chart, share in zip(drawn, expected, strict=True):
        assert [y for _, y in chart.lines[0].points] == pytest.approx([share] * 4)


def test_of_many_machines_the_busiest_are_drawn_and_the_title_says_so() -> None:
    chart = charts(sampled(machines=11))[0]
    assert len(chart.lines) == 8
    assert chart.title == "Processors, the 8 highest of 11"


def test_long_trials_are_thinned() -> None:
    chart = charts(sampled(machines=1, seconds=200))[0]
    assert 20 <= len(chart.lines[0].points) <= 40


def test_where_nothing_was_sampled_there_is_no_section() -> None:
    assert sections(run_of(*saturating())) == ()


def test_a_damaged_log_is_left_to_the_audit() -> None:
    class Damaged(SimpleNamespace):
        @property
        def resources(self) -> tuple[HostSample, ...]:
            raise FormatError("unreadable-result", "line 3 is no record")

    made = run_of(*saturating(loads=(1, 2)))
    for trial in made.run.trials:
        del trial.resources
    made.run.trials = tuple(Damaged(**vars(one)) for one in made.run.trials)
    assert sections(made) == ()


def test_where_there_is_no_room_for_all_the_peak_is_kept() -> None:
    made = sampled(loads=(1, 2, 3, 4, 6, 8, 12))
    (section,) = sections(made, PageBudget(60))
    titles = [block for block in section.blocks if isinstance(block, LineChart)]
    assert len(titles) == 4
    (study,) = study_of(made).curves
    peak = study.at_peak
    assert peak is not None
    share = {one.record.label: 0.2 + 0.1 * (at % 3) for at, one in enumerate(made.run.trials)}
    assert titles[0].lines[0].points[0][1] == pytest.approx(share[peak.evidence.trial])
