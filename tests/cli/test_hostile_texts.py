"""Every verb and format with forty hostile texts as names: no text changes what surrounds it."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from openpyxl import load_workbook

from leadline.cli.main import main
from leadline.plan.expand import with_repeats
from leadline.text import visible
from tests.cli.conftest import TRUSTED, Leadline
from tests.conftest import RECORDED
from tests.golden.archive_builder import make_run, plan_with_settings
from tests.hostile_texts import DIRECTIONS, ESCAPES, HIDDEN, MARKUP, TEXTS, on_github
from tests.unit.analysis.layers.streams import stack, stream_run

HEAD = "cluster,target,workload,op,pattern,block_size,numjobs,iodepth,runtime_s,iops,lat_mean_ms"
DEPTHS = (1, 4, 16)
SLOW = {"throughput_bps": 1.2e7, "size": 1.1e4, "latency_s": 1.2e-3}
# What no name of a plan may hold.
CONTROL = re.compile("[\x00-\x1f\x7f]")
FORMULA = re.compile(r"[=+\-@＝]")


def squeezed(text: str) -> str:
    """The text as a page or a wiki shows it."""
    return " ".join(visible(text).split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported runs with the texts as targets: `one` with a load curve of each, `two` with a single
    depth, `few` with two texts, `wrong` with unstable repeats, counters of their layers, and
    `tried` with other values of a setting."""
    folder = tmp_path_factory.mktemp("hostile")
    for run, texts, depths, shares in (
        ("one", TEXTS, DEPTHS, (0.99, 1.01)),
        ("two", TEXTS, DEPTHS[:1], (1.3, 1.31)),
        ("few", TEXTS[:2], DEPTHS, (0.99, 1.01)),
        ("wrong", TEXTS, DEPTHS[:1], (0.3, 1, 2)),
    ):
        table = folder / f"{run}.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(HEAD.split(","))
            for number, text in enumerate(texts):
                for depth in depths:
                    for share in shares:
                        rate = share * (900 + 10 * number) * depth**0.7
                        latency = depth / rate * 1000
                        cells = ("", text, "rand-read", "read", "randread", "4k", 1, depth, 60)
                        writer.writerow((*cells, f"{rate:.0f}", f"{latency:.4f}"))
        arguments = ["import", "table", str(table), "--run", run, "--runs", str(folder / "runs")]
        assert main(arguments) == 0
    stream_run(folder / "runs" / "streams", {text: (stack(131072), [SLOW]) for text in TEXTS})
    tried = plan_with_settings(TEXTS, repeats=1)
    workload = tried.cells[0].workload
    cells = tuple(cell for cell in tried.cells if cell.workload == workload)
    tried = with_repeats(tried.model_copy(update={"cells": cells}), [1] * len(cells))
    make_run(folder / "runs", tried, run_id="tried")
    return folder / "runs"


VERBS = {
    "list": ("list",),
    "show": ("show", "one"),
    "show --trials": ("show", "two", "--trials"),
    "audit": ("audit", "wrong"),
    "compare": ("compare", "one", "two"),
    "rank": ("rank", "two"),
    "scale": ("scale", "one", "--latency-limit", "mean<5ms"),
    "predict": ("predict", "one"),
    "layers": ("layers", "streams"),
    "recommend": ("recommend", "two", "--for", "virtual-machines"),
    "settings": ("settings", "tried"),
}
"""The verbs that show a run, with arguments."""


def first(always: tuple[Any, ...], rest: Iterable[Any], step: int = 2) -> list[Any]:
    """Cases, of which only the first are in `make test`: all others have the same renderer. Each
    `step`-th of them is in `make test-thorough`, all in `make test-deep`."""
    others = (one for one in rest if one not in always)
    marks = pytest.mark.thorough, pytest.mark.deep
    return [
        *always,
        *(pytest.param(one, marks=marks[: 1 + bool(at % step)]) for at, one in enumerate(others)),
    ]


def answered(leadline: Leadline, runs: Path, verb: str, form: str) -> str:
    said = leadline(*VERBS[verb], "--runs", runs, "--format", form)
    assert said.status in (0, 1, 6), said.err
    assert said.out
    assert not HIDDEN.findall(said.out)
    assert not HIDDEN.findall(said.err)
    return said.out


@pytest.mark.parametrize("verb", first(("show", "list", "compare"), VERBS, 1))
def test_the_terminal_gets_no_hidden_character(leadline: Leadline, runs: Path, verb: str) -> None:
    answered(leadline, runs, verb, "text")


@pytest.mark.parametrize("verb", first(("show", "compare"), VERBS))
def test_json_has_the_exact_texts(leadline: Leadline, runs: Path, verb: str) -> None:
    found = set(_strings(json.loads(answered(leadline, runs, verb, "json"))))
    whole = "\n".join(found)
    assert [text for text in TEXTS if text not in whole] == []


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _strings(one)


@pytest.mark.parametrize(
    "verb", first(("show", "layers"), ("show --trials", "compare", "rank", "scale"))
)
def test_csv_has_a_cell_for_each_text_and_no_formula(
    leadline: Leadline, runs: Path, verb: str
) -> None:
    def targets(form: str) -> tuple[set[str], list[dict[str, str]]]:
        text = answered(leadline, runs, verb, form)
        rows = list(csv.DictReader(io.StringIO(text), strict=True))
        assert all(None not in row and None not in row.values() for row in rows)
        return {row["target"] for row in rows}, rows

    raw, raw_rows = targets("csv-raw")
    assert raw == set(map(visible, TEXTS))
    guarded, rows = targets("csv")
    quoted = {f"'{text}" if FORMULA.match(text) else text for text in raw}
    assert guarded == quoted
    assert len(quoted - raw) == len([text for text in TEXTS if FORMULA.match(text)])
    for row, other in zip(rows, raw_rows, strict=True):
        for name, cell in row.items():
            assert not FORMULA.match(cell) or _is_number(cell)
            assert cell.removeprefix("'") == other[name]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    "verb", first(("show", "compare"), [verb for verb in VERBS if verb != "show --trials"])
)
def test_markdown_shows_the_texts_literally_on_github(
    leadline: Leadline, runs: Path, verb: str
) -> None:
    page = on_github(answered(leadline, runs, verb, "markdown"))
    names = set(map(squeezed, TEXTS))
    if verb == "show":
        assert names & set(page.cells) == names
    text = page.text
    assert [name for name in names if name not in text] == []


def test_junit_has_the_texts(leadline: Leadline, runs: Path) -> None:
    root = ElementTree.fromstring(answered(leadline, runs, "audit", "junit"))
    names = " ".join(case.get("classname", "") for case in root.iter("testcase"))
    assert [text for text in TEXTS if squeezed(text) not in " ".join(names.split())] == []
    lines = "".join(root.itertext()).split("\n")
    assert sum(" unstable-repeats" in line for line in lines) == len(TEXTS)


class _Page(HTMLParser):
    """The text of a page, with its elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.scripts = 0
        self.attributes: set[str] = set()
        self.elements: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script" and "type" not in dict(attrs)
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


@pytest.mark.parametrize(
    "page",
    first(
        ("run.html", "comparison.html", "comparison.md", "run.csv", "run.raw.csv"),
        [
            f"{name}.{ending}"
            for name in ("run", "comparison")
            for ending in ("pdf-ready", "html", "md", "json", "csv", "raw.csv")
        ],
    ),
)
def test_a_report_of_any_form(leadline: Leadline, runs: Path, tmp_path: Path, page: str) -> None:
    kind, _, ending = page.partition(".")
    names = ("one",) if kind == "run" else ("one", "two")
    path = tmp_path / f"page.{ending}"
    said = leadline("report", *names, "--runs", runs, "-o", path)
    assert said.status == 0, said.err
    text = path.read_text("utf-8")
    if ending in ("html", "pdf-ready"):
        parsed = _Page()
        parsed.feed(text)
        assert parsed.scripts == (ending == "html")
        assert not {name for name in parsed.attributes if name.startswith("on")}
        assert "img" not in parsed.elements
        shown = " ".join("".join(parsed.parts).replace("`", "").split())
        names_shown = [squeezed(text).replace("`", "") for text in TEXTS]
        assert [name for name in names_shown if name not in shown] == []
        text = text.replace(_script(text), "")
    elif ending == "md":
        on_github(text)
        for picture in (tmp_path / "page-charts").iterdir():
            ElementTree.fromstring(picture.read_text("utf-8"))
            assert not HIDDEN.findall(picture.read_text("utf-8"))
    elif ending == "json":
        whole = "\n".join(_strings(json.loads(text)))
        assert [text for text in TEXTS if text not in whole] == []
    else:
        targets = {row["target"] for row in csv.DictReader(io.StringIO(text), strict=True)}
        assert (targets == set(map(visible, TEXTS))) is (ending == "raw.csv")
    assert not HIDDEN.findall(text)


@pytest.mark.parametrize(
    "verb",
    first(("run", "rank"), ("comparison", "scale", "predict", "layers", "recommend", "settings")),
)
def test_a_workbook_has_the_texts_as_texts(
    leadline: Leadline, runs: Path, tmp_path: Path, verb: str
) -> None:
    path = tmp_path / "tables.xlsx"
    reports = {"run": ("report", "one"), "comparison": ("report", "one", "two")}
    said = leadline(*reports.get(verb) or VERBS[verb], "--runs", runs, "-o", path)
    assert said.status in (0, 1), said.err
    cells = [
        cell for sheet in load_workbook(path) for row in sheet.iter_rows() for cell in row
        if cell.value is not None
    ]  # fmt: skip
    assert {cell.data_type for cell in cells} <= {"s", "n"}
    assert not [cell for cell in cells if cell.hyperlink]
    whole = "\n".join(cell.value for cell in cells if cell.data_type == "s")
    assert not HIDDEN.findall(whole)
    assert [text for text in TEXTS if visible(text) not in whole] == []


def _script(text: str) -> str:
    return "".join(re.findall(r"<script>.*?</script>", text, re.DOTALL))


# Errors, progress, plans and dumps.

# All in one, and some that take another way alone. The kernel lets no argument hold a NUL.
ARGUMENTS = (
    "".join(TEXTS).replace("\0", ""),
    *(ESCAPES["osc 8, link"], ESCAPES["lines"], DIRECTIONS["override"], MARKUP["template"]),
    "not\udcffutf8",
)
ASKED = (
    ("{}",),
    ("show", "{}"),
    ("list", "--runs", "{}"),
    ("audit", "{}"),
    ("verify", "{}"),
    ("compare", "{}", "{}"),
    ("compare", "few", "--by", "{}"),
    ("compare", "few", "two", "--band", "{}"),
    ("rank", "few", "--objective", "{}"),
    ("rank", "few", "--for", "{}"),
    ("recommend", "few", "--for", "{}"),
    ("scale", "few", "--latency-limit", "{}"),
    ("scale", "few", "--by", "{}"),
    ("predict", "few", "--set", "{}"),
    ("predict", "few", "--set", "depth={}"),
    ("predict", "few", "--cluster", "{}"),
    ("predict", "few", "--against", "{}"),
    ("predict", "--from-inventory", "{}"),
    ("settings", "{}"),
    ("settings", "tried", "--band", "{}"),
    ("layers", "streams", "--target", "{}"),
    ("report", "few", "-o", "{}"),
    ("explain", "{}"),
    ("schema", "{}"),
    ("check", "{}"),
    ("check", "--target", "{}", "--profile", "quick"),
    ("check", "--target", "dir:/mnt/{}", "--profile", "quick", "--label", "k={}"),
    ("check", "--target", "dir:/mnt", "--job-file", "{}"),
    ("check", "--target", "dir:/mnt", "--profile", "{}", "--size", "{}", "--name", "{}"),
    ("run", "--resume", "{}"),
    ("run", "--target", "dir:/mnt", "--profile", "quick", "--replay", "{}"),
    ("import", "auto", "{}"),
    ("import", "fio", "{}", "--run", "{}"),
    ("inventory", "--from-dir", "{}"),
    ("inventory", "--ceph-conf", "{}"),
    ("plan", "--from-cluster", "--kubeconfig", "{}", "--context", "{}"),
    ("pools", "list", "--ceph-conf", "{}"),
    ("pools", "create", "{}"),
    ("lab", "status", "{}"),
    ("lab", "down", "{}"),
    ("lab", "up", "{}", "--dry-run"),
    ("clean", "{}"),
    ("clean", "--kubernetes", "--kubeconfig", "{}"),
)


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_no_message_has_a_hidden_character(
    leadline: Leadline, runs: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    monkeypatch.setenv("LEADLINE_RUNS", str(runs))
    for text in ARGUMENTS:
        said = leadline(*(word.replace("{}", text) for word in asked))
        assert said.status not in (70, 130), said.err
        assert not HIDDEN.findall(said.out + said.err), (text, said)


@pytest.fixture
def plan_of_texts(tmp_path: Path) -> tuple[Path, list[str]]:
    """A plan with all the texts that it takes as names of targets, and as labels."""
    names = [text.replace("/", "\u2215") for text in TEXTS if not CONTROL.search(text)]
    entries = []
    for number, name in enumerate(names):
        (tmp_path / "mnt" / str(number)).mkdir(parents=True)
        label = re.sub("[=,]", "", name)[:100]
        target = {"name": name, "target": f"dir:{tmp_path}/mnt/{number}", "labels": {"k": label}}
        entries.append(yaml.safe_dump(target, default_flow_style=True, width=10**6).strip())
    plan = tmp_path / "plan.yaml"
    plan.write_text(TRUSTED.format(targets=", ".join(entries)), "utf-8")
    return plan, names


def test_a_plan_takes_every_text_or_names_its_fault(
    leadline: Leadline, plan_of_texts: tuple[Path, list[str]]
) -> None:
    plan, names = plan_of_texts
    said = leadline("check", plan)
    assert said.status == 0, said.err
    assert not HIDDEN.findall(said.out)
    assert [name for name in names if visible(name) not in said.out] == []
    said = leadline("check", plan, "--format", "json")
    assert not HIDDEN.findall(said.out)
    assert [name for name in names if name not in "\n".join(_strings(json.loads(said.out)))] == []
    refused = [text for text in TEXTS if CONTROL.search(text)]
    assert len(refused) + len(names) == len(TEXTS)
    for text in refused:
        plan.write_text(TRUSTED.format(targets=json.dumps({"name": text, "target": "dir:/mnt"})))
        for form in ("text", "json"):
            said = leadline("check", plan, "--format", form)
            assert not HIDDEN.findall(said.err + said.out)
            assert said.status == 2, text
            assert "targets[0].name" in said.err


@pytest.mark.parametrize("terminal", first((True,), (False,)))
def test_a_run_prints_its_progress_literally(
    leadline: Leadline,
    plan_of_texts: tuple[Path, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
) -> None:
    plan, names = plan_of_texts
    if terminal:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "400")
    said = leadline("run", plan, "--replay", RECORDED, "--name", "x")
    assert said.status == 0, said.err
    assert [name for name in names if visible(name) not in said.err] == []
    if not terminal:
        assert not HIDDEN.findall(said.err)
    assert not HIDDEN.findall(said.out)
    dry = leadline("run", plan, "--replay", RECORDED, "--dry-run")
    assert not HIDDEN.findall(dry.out)
    assert [name for name in names if f" {visible(name)} " not in dry.out] == []


def test_an_inventory_of_hostile_pools(leadline: Leadline, tmp_path: Path) -> None:
    """Each text is the name of each pool in turn: names of all kinds come from one dump."""
    names = ["rbd_r3", "rbd_r2", "ec21_data", "cephfs_meta", "cephfs_r3", "cephfs_r2"]
    names += ["az1", "az2", "az3", "lab", "eu1", "hdd"]
    names += [f"z{zone}-h{host}" for zone in (1, 2, 3) for host in (1, 2)]
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for start in range(0, len(TEXTS), len(names)):
        texts = (TEXTS + TEXTS)[start : start + len(names)]
        renamed = dict(zip(names, texts, strict=True))
        for path in (RECORDED.parent / "ceph-multi-az").iterdir():
            document = _renamed(json.loads(path.read_text()), renamed)
            (dumps / path.name).write_text(json.dumps(document))
        for form in ("text", "markdown", "json"):
            said = leadline("inventory", "--from-dir", dumps, "--full", "--format", form)
            assert (said.status, said.err) == (0, "")
            assert not HIDDEN.findall(said.out)
            if form == "markdown":
                on_github(said.out)
            elif form == "json":
                whole = "\n".join(_strings(json.loads(said.out)))
                assert [text for text in texts[:6] if text not in whole] == []


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(one, names) for key, one in value.items()}
    return value
