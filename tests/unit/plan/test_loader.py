from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.errors import PLAN_INVALID, PLAN_UNREADABLE, LeadlineError
from leadline.plan.loader import Overrides, load_plan, load_profile, profile_names
from leadline.plan.workload import EngineChoice, Pattern

FIVE_FAULTS = """\
name: study
targets:
  - dri:/mnt/pool
repeets: 3
profile: four-corner
workloads:
  - name: mine
    pattern: randreed
    block_size: 4q
"""


def plan_file(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path) -> LeadlineError:
    with pytest.raises(LeadlineError) as caught:
        load_plan(path, Overrides())
    return caught.value


def test_five_faults_are_told_at_once_with_line_key_and_nearest_name(tmp_path: Path) -> None:
    path = plan_file(tmp_path, FIVE_FAULTS)
    error = refused(path)
    assert error.kind is PLAN_INVALID
    assert error.fact == "the plan has 5 faults"
    told = "\n".join(error.context)
    assert f"{path}:3: targets[0]: unknown kind of target 'dri'" in told
    assert "did you mean 'dir'?" in told
    assert f"{path}:4: repeets: unknown key 'repeets' (did you mean 'repeats'?)" in told
    assert f"{path}:5: profile: unknown profile 'four-corner'" in told
    assert "(did you mean 'four-corners'?)" in told
    assert f"{path}:8: workloads[0].pattern: " in told
    assert "(did you mean 'randread'?)" in told
    assert f"{path}:9: workloads[0].block_size: '4q' is not a size" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("targets: [dir:/a]\n", "neither a profile nor workloads"),
        ("profile: quick\n", "targets: is missing"),
        ("targets: []\nprofile: quick\n", "targets"),
        ("targets: [dir:/a, dir:/a]\nprofile: quick\n", "two targets are called 'dir:/a'"),
        (
            "targets: [dir:/a]\nworkloads: [{name: x, pattern: read}, {name: x, pattern: write}]\n",
            "two workloads are called 'x'",
        ),
        ("targets: [dir:/a]\nworkloads: [{name: x}]\n", "exactly one of pattern, phases"),
        (
            "targets: [dir:/a]\nworkloads: [{name: x, phases: [{pattern: read}, {pattern: rw}]}]\n",
            "two phases do the same operation",
        ),
        ("targets: [/mnt/a]\nprofile: quick\n", "did you mean 'dir:/mnt/a'?"),
        ("targets: [dir:relative]\nprofile: quick\n", "needs an absolute path"),
        ("targets: [dir:/a]\nworkloads: [{name: x, job_file: nothing.fio}]\n", "cannot be read"),
        ("targets: [dir:/a]\nprofile: quick\nrepeats: 0\n", "repeats"),
        ("targets: [dir:/a]\nprofile: [quick, quick]\n", "repeats workloads that are there"),
        ("targets: [dir:/a]\nprofile: quick\ndefaults: {runtime: 0}\n", "must be more than zero"),
        ("targets: [dir:/a]\nprofile: quick\ndefaults: {runtime: '1:30'}\n", "'1:30' is not a dur"),
        (
            "targets: [dir:/a]\nworkloads: [{name: x, pattern: read, read_share: 70}]\n",
            "read_share has no meaning for read",
        ),
        (
            "targets: [dir:/a]\nworkloads: [{name: x, pattern: read, block_size: 1M, size: 4k}]\n",
            ":2: workloads[0]: 'x': size is smaller than one block",
        ),
        ("targets: [dir:/a]\nprofile: quick\ndefaults: {size: 4k}\n", "'sequential-1m': size is"),
        (
            "targets: [dir:/a]\nworkloads: [{name: x, job_file: a.fio, iodepth: 4}]\n",
            "iodepth has no effect next to job_file",
        ),
    ],
)
def test_a_fault_is_told_in_its_own_words(tmp_path: Path, text: str, said: str) -> None:
    error = refused(plan_file(tmp_path, text))
    assert error.kind is PLAN_INVALID
    assert said in str(error)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("targets: [dir:/a\n", "not YAML"),
        ("a: &x [1]\nb: *x\n", "anchors and aliases"),
        ("a: 1\na: 2\n", "given twice"),
        ("a: !!python/object:os.system x\n", "tag"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_what_is_no_yaml_for_a_plan_is_refused_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    error = refused(plan_file(tmp_path, text))
    assert error.kind is PLAN_UNREADABLE
    assert said in str(error)
    assert "plan.yaml:" in str(error)


def test_a_missing_plan_is_told() -> None:
    assert refused(Path("/nowhere/plan.yaml")).kind is PLAN_UNREADABLE


@given(st.text(max_size=200))
def test_whatever_stands_in_a_plan_there_is_a_plan_or_one_error(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        path.write_text(text, encoding="utf-8", errors="replace")
        kind = None
        try:
            load_plan(path, Overrides())
        except LeadlineError as error:
            kind = error.kind
        assert kind in (PLAN_INVALID, PLAN_UNREADABLE)


@pytest.mark.parametrize("name", profile_names())
def test_every_built_in_profile_expands(name: str) -> None:
    assert load_profile(name).name == name
    only = {"zfs-stream": "zfs:tank", "volume-lifecycle": "storageclass:a"}
    target = only.get(name, "dir:/a")
    image = "any" if target.startswith("storageclass:") else None
    overrides = Overrides(targets=[target], profiles=[name], seed=1, runner_image=image)
    plan = load_plan(None, overrides)
    assert plan.cells
    assert all(cell.workload.runtime_s > 0 for cell in plan.cells)


def test_odf_vm_is_the_workload_of_the_study() -> None:
    plan = load_plan(None, Overrides(targets=["dir:/a"], profiles=["odf-vm"]))
    by_name = {cell.workload.name: cell.workload for cell in plan.cells}
    assert list(by_name) == ["random-rw-4k", "sequential-rw-1m", "mixed-70-30-4k"]
    random = by_name["random-rw-4k"]
    assert [phase.pattern for phase in random.phases] == [Pattern.RANDREAD, Pattern.RANDWRITE]
    for workload in by_name.values():
        assert workload.engine is EngineChoice.LIBAIO
        assert workload.direct
        assert workload.runtime_s == 60
        assert all(
            (phase.iodepth, phase.numjobs, phase.size) == (32, 4, 4 << 30)
            for phase in workload.phases
        )


def test_four_corners_asks_for_an_asynchronous_engine() -> None:
    plan = load_plan(None, Overrides(targets=["dir:/a"], profiles=["four-corners"]))
    assert {cell.workload.engine for cell in plan.cells} == {EngineChoice.AUTO}
    assert {cell.level for cell in plan.cells} == {"qd16x4", "qd32x16"}


def test_levels_make_cells_of_their_own() -> None:
    plan = load_plan(None, Overrides(targets=["dir:/a"], profiles=["scale-out"]))
    assert len(plan.cells) == 12
    assert {cell.level for cell in plan.cells} == {"qd32x4", "qd64x4"}


def test_the_command_line_beats_the_plan_and_the_plan_its_profile(tmp_path: Path) -> None:
    path = plan_file(
        tmp_path,
        "targets: [dir:/a]\nprofile: quick\ndefaults: {runtime: 7s, size: 1G}\nrepeats: 5\n",
    )
    plan = load_plan(path, Overrides())
    assert {cell.workload.runtime_s for cell in plan.cells} == {7}
    assert plan.repeats == 5
    plan = load_plan(path, Overrides(runtime="3s", repeats=2, targets=["fast=dir:/b"]))
    assert {cell.workload.runtime_s for cell in plan.cells} == {3}
    assert {phase.size for cell in plan.cells for phase in cell.workload.phases} == {1 << 30}
    assert plan.repeats == 2
    assert [(target.name, target.url) for target in plan.targets] == [("fast", "dir:/b")]


def test_every_block_holds_every_cell_once_in_an_order_of_its_own() -> None:
    plan = load_plan(None, Overrides(targets=["dir:/a"], profiles=["kbench"], repeats=20, seed=7))
    orders = [[trial.cell for trial in plan.trials if trial.block == block] for block in range(20)]
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert len({trial.seed for trial in plan.trials}) == len(plan.trials)


def test_the_same_seed_gives_the_same_plan() -> None:
    overrides = Overrides(targets=["dir:/a"], profiles=["quick"], seed=11)
    assert load_plan(None, overrides) == load_plan(None, overrides)


def test_job_files_of_the_command_line_become_workloads(tmp_path: Path) -> None:
    mine = tmp_path / "mine.fio"
    mine.write_text("[a]\nrw=read\nruntime=5\nsize=4M\n")
    plan = load_plan(None, Overrides(targets=["dir:/a"], job_files=[mine]))
    (cell,) = plan.cells
    assert cell.workload.name == "mine"
    assert cell.workload.job_file is not None
    assert cell.workload.job_file.text == mine.read_text()
    both = load_plan(None, Overrides(targets=["dir:/a"], profiles=["quick"], job_files=[mine]))
    assert len(both.cells) == 5
    with pytest.raises(LeadlineError, match="1 fault"):
        load_plan(None, Overrides(targets=["dir:/a"], job_files=[tmp_path / "none.fio"]))


def test_the_help_names_every_profile() -> None:
    from leadline.cli.check import command

    (option,) = (one for one in command.params if one.name == "profiles")
    listed = option.help.partition(":")[2].rstrip(".").split(",")  # type: ignore[attr-defined]
    assert {name.strip() for name in listed} == set(profile_names())


def test_faults_of_the_command_line_are_told_together_with_the_plans() -> None:
    with pytest.raises(LeadlineError) as caught:
        load_plan(
            None, Overrides(targets=["dri:/a"], profiles=["quik"], runtime="soon", size="big")
        )
    told = "\n".join(caught.value.context)
    assert caught.value.fact == "the plan has 4 faults"
    assert "--runtime: 'soon' is not a duration" in told
    assert "--size: 'big' is not a size" in told


@pytest.mark.parametrize("endless", ["/dev/zero", "/dev"])
def test_what_is_no_file_of_a_persons_is_not_read(endless: str) -> None:
    assert refused(Path(endless)).kind is PLAN_UNREADABLE


def test_a_path_that_is_not_utf_8_is_refused_in_its_own_words() -> None:
    with pytest.raises(LeadlineError, match="1 fault") as caught:
        load_plan(None, Overrides(targets=["dir:/a\udcff"], profiles=["quick"]))
    assert "not UTF-8" in str(caught.value)
