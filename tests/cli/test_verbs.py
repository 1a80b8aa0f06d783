"""explain, doctor, clean, schema, list and help: what they say and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Created
from leadline.archive.runs import list_runs
from leadline.archive.verify import verify
from leadline.archive.writer import RunWriter
from leadline.audit.registry import RULES
from leadline.cli.main import VERBS
from leadline.targets.file_system import OWNER_FILE
from tests.cli.conftest import QUICK, Leadline
from tests.conftest import RECORDED, Said


def test_help_names_every_verb_and_each_explains_itself(leadline: Leadline) -> None:
    overview = leadline("--help")
    assert overview.status == 0
    for verb in VERBS:
        assert f"  {verb} " in overview.out
        said = leadline(verb, "--help")
        assert said.status == 0
        assert f"Usage: leadline {verb}" in said.out
        assert f"    leadline {verb}" in said.out, "an example"


def test_explain_lists_every_rule_and_shows_each(leadline: Leadline) -> None:
    listed = leadline("explain").out.splitlines()
    codes = [*(rule.code for rule in RULES), "superlinear-scaling", "unexpected-performance"]
    assert [line.split()[0] for line in listed] == codes
    for code in codes:
        said = leadline("explain", code)
        assert said.status == 0
        assert said.out.startswith(f"# {code}\n")
    assert leadline("explain", RULES[0].code.upper()).out.startswith(f"# {RULES[0].code}\n")


def test_the_doctor_is_content_with_a_good_fio(
    leadline: Leadline, stub_fio: Callable[..., None]
) -> None:
    stub_fio()
    said = leadline("doctor")
    assert said.status == 0
    lines = said.out.splitlines()
    assert lines[0].split() == ["ok", "fio", "fio-3.33", "(needs", "3.18)"]
    assert "io_uring, libaio" in lines[1]
    assert "missing" not in said.out


@pytest.mark.usefixtures("without_fio")
def test_the_doctor_without_fio_says_how_to_get_it(leadline: Leadline) -> None:
    said = leadline("doctor")
    assert said.status == 3
    assert said.out.startswith("missing  fio ")
    assert "hint: install it: apt-get install fio" in said.out
    assert "in this fio" not in said.out, "nothing is claimed of a fio that is not there"
    assert "apt-get install util-linux" in said.out
    for program, package in (("pgbench", "postgresql"), ("sysbench fileio", "sysbench")):
        assert f"lacking  {program} " in said.out
        assert f"install the Debian package {package}" in said.out


@pytest.mark.real
def test_the_doctor_shows_the_versions_of_the_benchmark_programs(leadline: Leadline) -> None:
    lines = leadline("doctor").out.splitlines()
    assert [line.split()[0] for line in lines if "pgbench (PostgreSQL)" in line] == ["ok"]
    assert [line.split()[0] for line in lines if "sysbench fileio  " in line] == ["ok"]


def test_the_doctor_tells_an_old_or_a_poor_fio(
    leadline: Leadline, stub_fio: Callable[..., None]
) -> None:
    stub_fio(version="fio-3.1", engines=("psync",))
    said = leadline("doctor")
    assert said.status == 3
    assert "fio-3.1 is too old; Leadline needs 3.18 or newer" in said.out
    assert "neither io_uring nor libaio in this fio" in said.out


def test_clean_with_nothing_left_behind_touches_nothing(
    quick: Callable[..., Said], leadline: Leadline, tmp_path: Path
) -> None:
    assert leadline("clean").out == "nothing was left behind\n", "without any run"
    quick()
    (run,) = list_runs(tmp_path / "runs")
    before = (run.path / layout.MANIFEST).read_bytes()
    said = leadline("clean")
    assert (said.status, said.out) == (0, "nothing was left behind\n")
    assert (run.path / layout.MANIFEST).read_bytes() == before


def test_clean_removes_our_folder_and_leaves_a_strangers_alone(
    quick: Callable[..., Said], leadline: Leadline, tmp_path: Path, target: Path
) -> None:
    quick()
    (run,) = list_runs(tmp_path / "runs")
    tokens = ("0123456789abcdef", "fedcba9876543210")
    ours, theirs = (target / f"leadline-{run.id}-{token}" for token in tokens)
    with RunWriter.tidying(run.path) as writer:
        for folder, token in zip((ours, theirs), tokens, strict=True):
            folder.mkdir()
            (folder / OWNER_FILE).write_text(f"{run.id} {tokens[0]}\n")
            (folder / "leadline.0.dat").write_text("data")
            name = run.plan.targets[0].name
            writer.note_created(Created(target=name, path=str(folder), token=token))
    assert leadline("clean", "--dry-run").out.count("would remove") == 2
    assert ours.exists()
    said = leadline("clean", run.id)
    assert f"removed what a killed session left: {ours}" in said.out
    assert f"{theirs} carries the mark of another owner" in said.err
    assert said.status == 4, "something stays that the archive tells of"
    assert not ours.exists()
    assert (theirs / "leadline.0.dat").exists()
    assert verify(Run(run.path)).ok, "the archive is sealed again"


def test_a_schema_is_printed_for_every_verb_that_speaks_json(leadline: Leadline) -> None:
    verbs = leadline("schema").out.split()
    assert verbs == [
        *("audit", "check", "compare", "drill", "gate", "history", "import", "inventory", "lab"),
        *(
            "layers",
            "list",
            "plan",
            "pools",
            "pools-placement",
            "predict",
            "rank",
            "recommend",
            "run",
            "scale",
            "settings",
            "show",
            "site",
            "verify",
        ),
    ]
    for verb in verbs:
        schema = json.loads(leadline("schema", verb).out)
        assert schema["properties"]["schema"]["const"] == f"leadline/{verb}/1"
        assert schema["additionalProperties"] is False


def test_list_says_that_there_is_nothing(leadline: Leadline, tmp_path: Path) -> None:
    said = leadline("list")
    assert said.status == 0
    assert said.err == f"no runs in {tmp_path / 'runs'}\n"
    assert json.loads(leadline("list", "--format", "json").out)["runs"] == []


def test_one_damaged_archive_does_not_hide_the_others(
    quick: Callable[..., Said], leadline: Leadline, tmp_path: Path
) -> None:
    quick()
    broken = tmp_path / "runs" / "perf-20200101-000000"
    broken.mkdir()
    (broken / layout.MANIFEST).write_text("{")
    listed = json.loads(leadline("list", "--format", "json").out)["runs"]
    assert [run["status"] for run in listed] == ["damaged", "complete"]
    assert "damaged" in leadline("list").out


@pytest.mark.parametrize("verb", ["lab", "pools"])
def test_a_verb_with_verbs_of_its_own_names_them(leadline: Leadline, verb: str) -> None:
    said = leadline(verb)
    assert said.status == 2
    assert said.out == ""
    first, *lines = said.err.splitlines()
    assert first == f"error[usage]: `leadline {verb}` needs a verb of its own"
    assert any(line.split()[0] == "list" for line in lines)
    assert lines[-1] == f"hint: `leadline {verb} VERB --help`"


def test_a_long_list_of_targets_is_cut_for_people_and_whole_for_programs(
    leadline: Leadline, tmp_path: Path
) -> None:
    targets = []
    for number in range(6):
        (tmp_path / f"t{number}").mkdir()
        targets += ["--target", f"t{number}=dir:{tmp_path}/t{number}"]
    ran = leadline("run", *targets, *QUICK, "--repeats", "1", "--replay", RECORDED, "--quiet")
    assert ran.status in (0, 1), ran.err
    assert "t0, t1, t2, t3 and 2 more" in leadline("list").out
    (listed,) = json.loads(leadline("list", "--format", "json").out)["runs"]
    assert listed["targets"] == [f"t{number}" for number in range(6)]
