"""`leadline scale`: load curves of one run, and systems of different size."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import leadline as package
from leadline.errors import LeadlineError
from tests.cli.conftest import Leadline, answer, as_written, refused, rows
from tests.conftest import RECORDED

# Throughput of one system that saturates near 4,000 IOPS.
SATURATING = ((1, 1000), (2, 1900), (4, 3000), (8, 3800), (16, 4000), (32, 4050))


def test_a_curve_with_its_peak_and_knee(leadline: Leadline, imported: Callable[..., None]) -> None:
    imported(*rows("", SATURATING))
    shown = answer(leadline("scale", "study", "--format", "json"))
    assert shown["schema"] == "leadline/scale/1"
    assert shown["runs"] == ["study"]
    (curve,) = shown["curves"]
    assert (curve["target"], curve["op"], curve["axis"]) == ("pool", "read", "I/Os in flight")
    assert [one["load"] for one in curve["points"]] == [1, 2, 4, 8, 16, 32]
    assert {one["loop"] for one in curve["points"]} == {"closed"}
    assert curve["points"][0]["iops"] == 1000
    assert curve["points"][0]["latency_mean"] == pytest.approx(0.001, rel=0.01)
    assert curve["peak"]["iops"] == 4050
    assert curve["peak"]["last"] is True
    assert curve["saturated"] is True
    assert curve["knee"]["load"] in (8, 16)
    assert curve["usl"]["rate"] == pytest.approx(1000, rel=0.2)
    assert curve["usl"]["absence"] == ""
    assert (shown["limit"], curve["limit"]) == (None, None)
    assert shown["speedups"] == shown["findings"] == shown["density"] == shown["neighbours"] == []


def test_the_last_level_within_a_limit(leadline: Leadline, imported: Callable[..., None]) -> None:
    imported(*rows("", SATURATING))
    limit = ("--latency-limit", "mean < 3ms", "--format", "json")
    shown = answer(leadline("scale", "@latest", *limit))
    assert shown["limit"] == "mean<3 ms"
    found = shown["curves"][0]["limit"]
    assert (found["last_kept"], found["first_broken"]) == ("iodepth=8", "iodepth=16")
    assert found["iops"] == 3800
    (text, markdown) = (
        leadline("scale", "study", *limit[:2], "--format", form) for form in ("text", "markdown")
    )
    for said in (text, markdown):
        assert said.status == 0
        assert "mean" in said.out
        assert "3 ms" in said.out
        assert "4,050" in said.out, "the highest throughput"
    assert markdown.out.startswith("# ")


def test_csv_has_a_row_for_each_level(leadline: Leadline, imported: Callable[..., None]) -> None:
    imported(*rows("", SATURATING))
    said = leadline("scale", "study", "--format", "csv")
    assert said.status == 0
    table = list(csv.DictReader(io.StringIO(said.out)))
    assert [(one["level"], float(one["iops"])) for one in table] == [
        (f"iodepth={depth}", iops) for depth, iops in SATURATING
    ]
    assert {one["latency_p99"] for one in table} == {""}, "missing is missing"
    assert {one["trials"] for one in table} == {"3"}


def test_runs_are_systems_next_to_the_first(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("three", SATURATING), *rows("five", SATURATING, times=1.6))
    shown = answer(leadline("scale", "study-three", "study-five", "--format", "json"))
    assert shown["runs"] == ["study-three", "study-five"]
    (speedup,) = shown["speedups"]
    assert (speedup["baseline"], speedup["candidate"]) == ("three", "five")
    assert [one["ratio"] for one in speedup["levels"]] == [pytest.approx(1.6, rel=1e-4)] * len(
        SATURATING
    )
    for one in speedup["levels"]:
        low, high = one["interval"]
        assert low < 1.6 < high
        assert one["evidence"] == "trials"
    assert speedup["peak"]["ratio"] == pytest.approx(1.6, rel=1e-4)
    assert (speedup["resources"], speedup["divisor"]) == ([], None), "no added resource is known"
    assert speedup["peak"]["efficiency"] is None
    assert speedup["equal_latency"]["ratio"] > 1.6, "less is in flight for each I/O of it"
    text = leadline("scale", "study-three", "study-five").out
    assert "five vs three" in text
    assert "5 % between runs" in text


def test_intervals_of_two_runs_include_the_deviation_between_runs(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("three", SATURATING), *rows("five", SATURATING, times=1.6))

    def width(*options: str) -> float:
        shown = answer(leadline("scale", "study-three", "study-five", *options, "--format", "json"))
        assert shown["between_runs"] == (float(options[1][:-1]) / 100 if options else 0.05)
        low, high = shown["speedups"][0]["levels"][0]["interval"]
        return math.log(high / low)

    assert width("--between-runs", "0%") < width("--between-runs", "2%") < width()
    # 1.96 sqrt(2) 5 % on each side is the least.
    assert width() > 2 * 1.96 * math.sqrt(2) * 0.05


def test_one_level_alone_is_no_curve(leadline: Leadline, imported: Callable[..., None]) -> None:
    imported(*rows("", SATURATING[:1]), *rows("", SATURATING[:1], workload="other"))
    shown = refused(leadline("scale", "study"), 6, "no-load-curve")
    assert "a load curve needs at least two levels" in shown
    assert "pool · rand · read: 1 level" in shown
    assert "levels: [{iodepth: 1}" in shown


def test_one_level_of_two_systems_is_a_speed_up(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    """A published claim: one number a side."""
    before, after = rows("old", [(8, 1000)])[1:2], rows("new", [(8, 1950)])[1:2]
    imported(*before, *after)
    shown = answer(leadline("scale", "study-old", "study-new", "--format", "json"))
    (level,) = shown["speedups"][0]["levels"]
    assert level["ratio"] == pytest.approx(1.95)
    assert level["interval"] is None
    assert "single-trial" in level["reasons"]


def test_runs_with_nothing_in_common(leadline: Leadline, imported: Callable[..., None]) -> None:
    imported(*rows("a", SATURATING), *rows("b", SATURATING, workload="other"))
    shown = refused(leadline("scale", "study-a", "study-b"), 6, "not-comparable")
    assert "study-a: pool · rand" in shown
    assert "study-b: pool · other" in shown


def test_runs_that_show_no_load(leadline: Leadline) -> None:
    """The published study of two clusters, without queue depths."""
    table = RECORDED.parent / "imports" / "table" / "multizone-vs-singlezone.csv"
    assert leadline("import", "table", table, "--run", "mz").status == 0
    shown = refused(leadline("scale", "mz-single-zone", "mz-multi-zone"), 6, "not-comparable")
    assert "no level of mz-single-zone and mz-multi-zone states its load" in shown
    assert "`leadline compare`" in shown
    assert "no level states its load" in refused(
        leadline("scale", "mz-single-zone"), 6, "no-load-curve"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--latency-limit", "fast"), "is no latency limit"),
        (("--latency-limit", "p42<1ms"), "'p42' is none of mean, p50"),
        (("--band", "200%"), "not between 0 % and 100 %"),
        (("--by", "cores"), "differ in the label cores"),
        (("--format", "yaml"), "yaml"),
    ],
)
def test_requests_that_cannot_be_understood(
    leadline: Leadline, imported: Callable[..., None], options: tuple[str, ...], said: str
) -> None:
    imported(*rows("", SATURATING))
    assert said in refused(leadline("scale", "study", *options), 2, "usage")


def test_a_untrusted_names_move_no_cursor(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    evil = [line.replace(",pool,", ",po\x1b[2Jol,") for line in rows("", SATURATING)]
    imported(*evil)
    for form in ("text", "markdown"):
        said = leadline("scale", "study", "--format", form)
        assert said.status == 0, said.err
        assert "\x1b" not in said.out + said.err
    imported(*evil[:1], run="one")
    assert "\x1b" not in refused(leadline("scale", "one"), 6, "no-load-curve")


def test_a_run_that_is_not_there(leadline: Leadline, imported: Callable[..., None]) -> None:
    imported(*rows("", SATURATING))
    refused(leadline("scale", "nowhere"), 2, "run-not-found")


def test_targets_by_a_label_next_to_what_they_have_more_of(
    leadline: Leadline, recorded: Path, tmp_path: Path
) -> None:
    """Two targets that gave the same, one of them with twice the cores: half the efficiency."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "targets:\n"
        + "".join(
            f"  - {{name: t{cores}, target: 'dir:{tmp_path}', labels: {{cores: {cores}}}}}\n"
            for cores in (2, 1)
        )
        + "repeats: 2\nprefill: false\nworkloads:\n"
        "  - {name: randwrite-4k, pattern: randwrite, block_size: 4k, size: 64M, runtime: 2s}\n"
    )
    ran = leadline("run", plan, "--replay", recorded, "--quiet")
    assert ran.status in (0, 1), ran.err
    shown = answer(leadline("scale", "--by", "cores", "--format", "json"))
    (speedup,) = shown["speedups"]
    assert (speedup["by"], speedup["baseline"], speedup["candidate"]) == (
        "label",
        "cores=1",
        "cores=2",
    )
    (resource,) = speedup["resources"]
    assert (resource["name"], resource["ratio"]) == ("cores", 2)
    (level,) = speedup["levels"]
    assert level["ratio"] == 1
    assert level["efficiency"] == 0.5
    assert shown["findings"] == []


def test_notebooks_get_what_the_command_line_says(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("three", SATURATING), *rows("five", SATURATING, times=1.6))
    said = answer(leadline("scale", "study-three", "study-five", "--format", "json"))
    scaling = package.scale("study-three", package.open_run("study-five"))
    levels = as_written(scaling.levels().to_pylist())
    points = [point for curve in said["curves"] for point in curve["points"]]
    assert [(one["load"], one["iops"]) for one in levels] == [
        (one["load"], one["iops"]) for one in points
    ]
    ratios = as_written([one["ratio"] for one in scaling.speedups().to_pylist()])
    assert ratios == [one["ratio"] for one in said["speedups"][0]["levels"]]
    assert package.scale("study-three", latency_limit="mean<3ms").answer.limit == "mean<3 ms"
    with pytest.raises(LeadlineError, match="between 0 and 1"):
        package.scale("study-three", band=5)


def test_a_published_claim_is_held_against_the_hardware_that_is_reported(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    """60 % more hardware that gave up to 95 % more, as single numbers: two runs differ by that."""
    one = "pool,rand,read,randread,4k,1,32,60"
    imported(f"three,{one},1000,32", f"five,{one},1950,16.41")
    without = answer(leadline("scale", "study-three", "study-five", "--format", "json"))
    assert not without["findings"]
    shown = answer(
        leadline("scale", "study-three", "study-five", "--added", "1.6", "--format", "json")
    )
    (speedup,) = shown["speedups"]
    assert [(part["name"], part["ratio"]) for part in speedup["resources"]] == [("hardware", 1.6)]
    assert not shown["findings"], "two single runs differ by as much"
    said = leadline("scale", "study-three", "study-five", "--added", "1.6")
    shown_text = " ".join(said.out.split())
    assert "+95 %, 1,950 IOPS, for +60 % hardware (1 to 1.6); efficiency 122 %" in shown_text
    half = ("scale", "study-three", "study-five", "--added", "0.5")
    assert not answer(leadline(*half, "--format", "json"))["findings"], "nothing was added"
    few = answer(
        leadline("scale", "study-three", "study-five", "--added", "1.1", "--format", "json")
    )
    (found,) = few["findings"]
    assert (found["code"], found["severity"]) == ("superlinear-scaling", "warning")
    assert "Single trials: the test allows for a factor of" in found["message"]
    imported(*rows("", SATURATING), run="alone")
    refused(leadline("scale", "alone", "--added", "2"), 2, "usage")
