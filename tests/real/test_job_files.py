"""Job files of users with the installed fio: what it would open, and that it gets their options."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.records import TrialStatus
from leadline.archive.runs import list_runs
from leadline.engines.choose import RealEngines
from leadline.engines.fio import job_check
from leadline.engines.fio.local import FioEngine
from leadline.errors import JOB_FILE_INVALID, LeadlineError
from leadline.plan.job_file import Place, fio_options, parse_job_file
from leadline.plan.models import Plan
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import JobFile, Workload
from tests import hostile_job_files
from tests.real.conftest import Ended

Process = Callable[..., Ended]
ROOT = Path(__file__).resolve().parents[2]


def ask_fio(*arguments: str) -> str:
    return subprocess.run(["fio", *arguments], capture_output=True, text=True, timeout=60).stdout


def option_names(listing: str) -> list[str]:
    return re.findall(r"^ *([A-Za-z][\w-]*) *:", listing, re.MULTILINE)


@pytest.fixture(scope="module")
def table() -> Mapping[str, str | None]:
    """The alias of each option that is allowed or refused."""
    listed = fio_options()
    return {
        option: alias
        for options in (*listed.allowed.values(), *(each.options for each in listed.refused))
        for option, alias in options.items()
    }


def test_every_option_of_the_installed_fio_is_in_the_table(
    table: Mapping[str, str | None],
) -> None:
    options = option_names(ask_fio("--cmdhelp"))
    assert len(options) > 200, "fio lists its options in another form"
    missing = [option for option in options if option not in table]
    assert not missing, f"class these options in data/fio_options.yaml: {', '.join(missing)}"
    aliases = {
        option: (re.findall(r"^ *alias: (\S+)", ask_fio(f"--cmdhelp={option}"), re.MULTILINE))
        for option in options
    }
    assert {option for option, names in aliases.items() if names} > {"rw", "mem", "fill_device"}
    wrong = {
        option: names
        for option, names in aliases.items()
        if names != [alias for alias in (table[option],) if alias]
    }
    assert not wrong, f"other aliases in data/fio_options.yaml: {wrong}"


def test_every_engine_of_the_installed_fio_is_in_the_table(
    table: Mapping[str, str | None],
) -> None:
    listed = fio_options()
    allowed = {name for group in listed.engines.values() for name in group}
    refused = {name for group in listed.refused_engines for name in group.engines}
    engines = ask_fio("--enghelp").split()[3:]
    assert len(engines) > 10, "fio lists its engines in another form"
    missing = set(engines) - allowed - refused
    assert not missing, f"class these engines in data/fio_options.yaml: {sorted(missing)}"
    for engine in engines:
        for option in option_names(ask_fio(f"--enghelp={engine}")):
            assert option in table, f"class {option} of {engine} in data/fio_options.yaml"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with files that no run may touch, and where no run may make any."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("sentinel", "sentinel.0.0", "device", "more.fio"):
        (folder / name).write_text(f"{name} of somebody else\n" * 1000)
    return folder


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def run(
    process: Process, target: Path, outside: Path, content: str | bytes, *options: object
) -> Ended:
    path = hostile_job_files.write(target.parent, content)
    return process(
        *("run", "--target", f"dir:{target}", "--job-file", path, "--repeats", 1, *options),
        HOME=str(outside / "home"),
        LEADLINE_EMPTY="",
        LEADLINE_KEY="filename",
        LEADLINE_SIZE="64k",
    )


@pytest.mark.parametrize("name", [*hostile_job_files.refused(), *hostile_job_files.as_bytes()])
def test_a_hostile_job_file_touches_nothing(
    process: Process, target: Path, outside: Path, name: str
) -> None:
    # The folder of the run is in the target: two levels above it is the test's own folder.
    texts = hostile_job_files.refused("../../outside", str(outside))
    content = texts[name][0] if name in texts else hostile_job_files.as_bytes()[name]
    before = contents(outside)
    ended = run(process, target, outside, content)
    assert contents(outside) == before
    assert list(target.iterdir()) == []
    assert (ended.status, "hostile.fio" in ended.err) == (2, True), ended.err


@pytest.mark.parametrize("name", hostile_job_files.kept())
def test_a_job_file_with_paths_as_names_stays_in_its_target(
    process: Process, target: Path, outside: Path, name: str
) -> None:
    before = contents(outside)
    text = hostile_job_files.kept("../../outside", str(outside))[name]
    ended = run(process, target, outside, text)
    assert ended.status in (0, 1), ended.err
    after = {path: held for path, held in contents(outside).items() if "/home/" not in path}
    assert after == before
    assert list(target.iterdir()) == []
    (done,) = list_runs(target.parent / "runs")
    assert [trial.record.status for trial in done.trials] == [TrialStatus.COMPLETED]
    jobs = json.loads((done.trials[0].folder / "fio.json").read_text())["jobs"]
    assert len({job["jobname"] for job in jobs}) == (2 if "several" in name else 1)


# As people write them: fio's own examples (iometer-file-access-server, basic-verify, zipf,
# latency-profile) with a runtime, small sizes and without the names of files, and our plans.
ORDINARY = {
    "iometer": (
        "# This job file tries to mimic the Intel IOMeter File Server Access Pattern\n"
        "[global]\ndescription=Emulation of Intel IOmeter File Server Access Pattern\n"
        "runtime=1\n\n[iometer]\n"
        "bssplit=512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10\nrw=randrw\nrwmixread=80\n"
        "size=8m\nioengine=libaio\n; queue depth\niodepth=64\n"
    ),
    "verify": (
        "[write-and-verify]\nrw=randwrite\nbs=4k\nioengine=libaio\niodepth=16\nsize=1m\n"
        "verify=crc32c\nverify_pattern=0xdeadbeef\nruntime=2\n"
    ),
    "zipf": (
        "[global]\nrandom_distribution=zipf:0.5\nnorandommap=1\nrandrepeat=0\nsize=16m\n"
        "runtime=1\ntime_based\nbs=4k\nthread\n[reader]\nrw=randread\nnumjobs=2\n"
        "ioengine=psync\nnrfiles=2\n[writer]\nrw=randwrite\nfdatasync=8\nioengine=sync\n"
        "rate_iops=200\nthinktime=10\n"
    ),
    "phases": (
        "[global]\nioengine=io_uring\nruntime=1s\ntime_based=1\ngroup_reporting\nsize=8M\n"
        "percentile_list=50:99:99.9\nlog_avg_msec=100\n[seq write]\nrw=write\nbs=128k\n"
        "iodepth=4\nwrite_bw_log=seq\nbuffer_compress_percentage=50\nrefill_buffers\n"
        "[seq read]\nstonewall\nrw=read\nbs=128k\niodepth=4\ncpus_allowed=0\n"
        "write_lat_log\nfallocate=none\n"
    ),
    "metadata": (ROOT / "plans" / "metadata.fio").read_text().replace("nrfiles=2500", "nrfiles=9"),
}


def options_by_fio(folder: Path, text: str) -> tuple[Mapping[str, str], ...]:
    """The options of [global] and of each job that fio reports of the user's own text."""
    folder.mkdir()
    (folder / "own.fio").write_text(text)
    done = subprocess.run(
        ["fio", f"--directory={folder}", "--output=fio.json", "--output-format=json", "own.fio"],
        cwd=folder,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return reported_options(json.loads((folder / "fio.json").read_text()))


def reported_options(output: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
    options = [{"name": "", **job["job options"]} for job in output["jobs"]]
    names = [{"name": job["jobname"]} for job in output["jobs"]]
    jobs = [{**job, **name} for job, name in zip(options, names, strict=True)]
    return ({**output["global options"]}, *jobs)


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_job_file_has_results_of_its_own_options(
    process: Process, target: Path, outside: Path, name: str
) -> None:
    ended = run(process, target, outside, ORDINARY[name])
    assert ended.status in (0, 1), ended.err
    (done,) = list_runs(target.parent / "runs")
    (trial,) = done.trials
    assert trial.record.status is TrialStatus.COMPLETED, trial.record.problem
    output = json.loads((trial.folder / "fio.json").read_text())
    own = options_by_fio(target.parent / "by-fio", ORDINARY[name])
    by_leadline = reported_options(output)
    assert len(own) == len(by_leadline)
    assert {option for options in own for option in options} > {"name", "ioengine", "runtime"}
    # Leadline gives what fio's command line does, and names of files where the user gives none.
    for mine, theirs in zip(own, by_leadline, strict=True):
        added = dict(theirs.items() - mine.items())
        named = mine.get("filename_format")
        lost = {("directory", str(target.parent / "by-fio")), ("filename_format", named)}
        assert mine.items() - theirs.items() <= lost
        assert added.keys() <= {"directory", "lat_percentiles", "filename_format"}
        if named is None:
            pattern = r"leadline\.[0-9a-f]{8}\.\d\.\$jobnum\.\$filenum\.dat|"
            assert re.fullmatch(pattern, added.get("filename_format", ""))
        else:
            assert theirs["filename_format"] == f"leadline.{named}.dat"
    assert list(target.iterdir()) == []


def test_an_option_of_the_command_line_is_named_with_its_line(
    process: Process, target: Path, outside: Path
) -> None:
    """A colleague's file, of which fio says "Bad option" and drops the job."""
    text = "[global]\nruntime=60\ntime_based=1\noutput-format=json\n[seq_read]\nrw=read\nbs=128k\n"
    path = hostile_job_files.write(target.parent, text)
    ended = process("check", "--target", f"dir:{target}", "--job-file", path)
    assert ended.status == 2
    assert "hostile.fio:4: 'output-format' is refused" in ended.err


def workload(text: str) -> Workload:
    job_file = parse_job_file("mine.fio", text)
    return Workload(name="mine", job_file=job_file, runtime_s=1)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("rw=randread:8", None),
        ("iodepth=many", "iodepth=many"),
        ("steadystate=nothing", "steadystate=nothing"),
        ("hipri=1", "Bad option <hipri=1>"),
    ],
)
def test_what_fio_refuses_is_refused_before_the_first_trial(line: str, fault: str | None) -> None:
    mine = workload(f"[a]\nruntime=1\nioengine=psync\n{line}\n")
    engine = FioEngine()
    for kind in (TargetKind.DIR, TargetKind.DEVICE):
        if fault is None:
            engine.check(mine, kind)
            continue
        with pytest.raises(LeadlineError) as caught:
            engine.check(mine, kind)
        assert caught.value.kind is JOB_FILE_INVALID
        assert fault in str(caught.value)


@pytest.mark.parametrize("kind", [TargetKind.DIR, TargetKind.DEVICE])
@pytest.mark.parametrize(
    ("text", "stray"),
    [
        ("[a]\nfilename=x\n", "--filename=x"),
        ("[a]\nfile${LEADLINE_EMPTY}name=x\n", "--filename=x"),
        ("[a]\ndirectory=/tmp\n", "--directory=/tmp"),
        ("[a]\n#" + "x" * 8190 + "filename=x\n", "--filename=x"),
        ("[a]\nexec_prerun=touch\n", "--exec_prerun=touch"),
        ("[a]\nread_iolog=x\n", "--read_iolog=x"),
    ],
)
def test_the_second_look_sees_what_the_first_missed(
    monkeypatch: pytest.MonkeyPatch, kind: TargetKind, text: str, stray: str
) -> None:
    def unchanged(job_file: JobFile, place: Place) -> str:
        return job_file.text

    monkeypatch.setattr(job_check, "write_job_file", unchanged)
    job_file = parse_job_file("mine.fio", "[a]\nruntime=1\n").model_copy(update={"text": text})
    mine = Workload(name="mine", job_file=job_file, runtime_s=1)
    with pytest.raises(LeadlineError, match="fio would leave the target") as caught:
        FioEngine().check(mine, kind)
    assert stray in str(caught.value)


@pytest.mark.parametrize("name", ["exec_prerun", "long comment", "section without a bracket"])
def test_a_plan_of_an_archive_goes_through_the_same_parse(name: str) -> None:
    """An earlier version kept the user's text in the plan, and gave it to fio."""
    kept = workload("[a/b]\nruntime=1\nrw=read\nsize=4k\n")
    assert kept.job_file is not None
    hostile = kept.job_file.model_copy(update={"text": hostile_job_files.refused()[name][0]})
    engines = RealEngines()
    engines.check(plan_of(kept))
    with pytest.raises(LeadlineError) as caught:
        engines.check(plan_of(kept.model_copy(update={"job_file": hostile})))
    assert caught.value.kind is JOB_FILE_INVALID


def plan_of(mine: Workload) -> Plan:
    return Plan.model_validate(
        {
            "targets": [{"name": "t", "url": "dir:/x"}],
            "cells": [{"target": "t", "workload": mine, "level": ""}],
            "trials": [{"id": "t0001", "position": 0, "block": 0, "cell": 0, "seed": 1}],
            "repeats": 1,
            "seed": 1,
        }
    )


def test_a_job_file_on_a_device_reads_it_and_nothing_else(
    process: Process, loop_device: Path, tmp_path: Path, outside: Path
) -> None:
    before = contents(outside)
    text = (
        "[global]\nruntime=1\ntime_based\nsize=8m\nioengine=psync\n"
        "[../../outside/sentinel]\nrw=randread\n[/dev/null]\nstonewall\nrw=read\nbs=64k\n"
    )
    path = hostile_job_files.write(tmp_path, text)
    where = ("--target", f"device:{loop_device}", "--job-file", path, "--repeats", 1)
    ended = process("run", *where, "--no-prefill")
    assert ended.status in (0, 1), ended.err
    assert contents(outside) == before
    (done,) = list_runs(tmp_path / "runs")
    output = json.loads((done.trials[0].folder / "fio.json").read_text())
    assert [job["jobname"] for job in output["jobs"]] == ["_._.._outside_sentinel", "_dev_null"]
    assert all(job["read"]["io_bytes"] > 0 for job in output["jobs"])
    assert not loop_device.read_bytes().strip(b"\0"), "the device is as it was"


def test_a_device_is_not_deleted(process: Process, loop_device: Path, tmp_path: Path) -> None:
    """fio's engine filedelete unlinks whatever its file is."""
    text = "[a]\nruntime=1\nioengine=filedelete\n"
    path = hostile_job_files.write(tmp_path, text)
    ended = process("run", "--target", f"device:{loop_device}", "--job-file", path)
    assert ended.status == 2, ended.err
    assert "'filedelete' works in files only" in ended.err
    assert loop_device.is_block_device()


def test_a_run_asks_fio_before_it_makes_anything(process: Process, target: Path) -> None:
    path = hostile_job_files.write(target.parent, "[a]\nruntime=1\nsize=1m\niodepth=many\n")
    ended = process("run", "--target", f"dir:{target}", "--job-file", path)
    assert (ended.status, "iodepth=many" in ended.err) == (2, True), ended.err
    assert list(target.iterdir()) == []
    assert not list_runs(target.parent / "runs")
