"""A power cut at random moments of `run`, its resume, `import`, `clean` and `scrub`: no reported
trial is lost, nothing incomplete is read as complete, and what is there can be continued.

The system calls of each verb are recorded once, with real fio; then the states that a cut can leave
are made from them (`power_cut.py`). `LEADLINE_CUTS` is the number of cuts (20 in `make
test-thorough`, 200 in `make test-deep`).
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.archive.runs import list_runs
from leadline.archive.verify import verify
from tests.conftest import RECORDED, Said
from tests.real.conftest import command, environment
from tests.real.power_cut import Mode, Recording, record
from tests.real.test_kill_anywhere import PLAN, REPORTED, TRIALS

pytestmark = [pytest.mark.real, pytest.mark.thorough]
CUTS = int(os.environ.get("LEADLINE_CUTS", "20"))
MODES = (Mode.NOTHING, Mode.ANY, Mode.ANY, Mode.IN_ORDER, Mode.ALL)
SECRET = "AQBQe0pnAAAAABAAq1D4Rr0cJm2Vd8WZkLxT5A=="
PATIENCE_S = 120.0

Leadline = Callable[..., Said]


@dataclass(kw_only=True)
class Verb:
    """One verb that is cut: its words, and the completed trials that there are before it."""

    name: str
    folder: Path
    words: tuple[object, ...]
    before: int = 0
    leadline: Leadline
    whole: Path

    @property
    def root(self) -> Path:
        """All that a cut can touch."""
        return self.folder / "root"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def target(self) -> Path:
        return self.root / "target"

    def record(self) -> Recording:
        """Run the verb under strace. The recording must give what is there now."""
        kept = self.folder / "before"
        shutil.copytree(self.root, kept)
        said, traces = self.folder / "said", self.folder / "traces"
        status = record(command(*self.words), said, traces, environment(self.runs))
        assert status in (0, 1), said.read_text()
        there = tree(self.root)
        after = self.folder / "after"
        self.root.rename(after)
        kept.rename(self.root)
        recording = Recording(self.root, traces, said)
        replayed = {
            name: None if data is None else b"" if "/target/" in f"/{name}" else data
            for name, data in recording.final().items()
        }
        assert replayed == there, "the replay of all calls is not what they made"
        return recording


def tree(root: Path) -> dict[str, bytes | None]:
    """Every file and folder; the data of targets is left out, which fio writes around strace."""
    return {
        str(path.relative_to(root)): None
        if path.is_dir()
        else b""
        if path.is_relative_to(root / "target")
        else path.read_bytes()
        for path in root.rglob("*")
    }


def completed(runs: Path) -> int:
    return sum(
        trial.record.status is TrialStatus.COMPLETED
        for run in list_runs(runs)
        for trial in run.attempts
    )


def check_readable(verb: Verb) -> None:
    """What is there is whole: each trial has all its files, and a sealed archive verifies."""
    for run in list_runs(verb.runs):
        problems = verify(run).problems
        broken = [problem for problem in problems if problem.path.startswith("trials/")]
        assert not broken, f"a trial is there in part: {broken}"
        if run.complete:
            assert not problems, f"complete, but {problems}"
        said = verb.leadline("verify", run.path)
        assert said.status == (0 if run.complete else 1), said.out + said.err


def check_continued(verb: Verb) -> None:
    """The next commands of a user end well: resume, clean, verify."""
    if list_runs(verb.runs):
        replay = ("--replay", verb.whole, "--quiet", "--retry-failed")
        said = verb.leadline("run", "--resume", "@latest", *replay)
        assert said.status in (0, 1) or "lacks no trial" in said.err, f"{said.status}: {said.err}"
    said = verb.leadline("clean")
    assert said.status == 0, said.err
    left = [path.name for path in verb.target.iterdir()]
    assert left == [], f"{left} stays on the target"
    hidden = [path.name for path in verb.runs.rglob(".*")] if verb.runs.exists() else []
    assert hidden == [], f"{hidden} stays among the runs"
    for run in list_runs(verb.runs):
        assert run.complete
        said = verb.leadline("verify", run.path)
        assert said.status == 0, said.out


def check_trials(verb: Verb, printed: str) -> None:
    reported = verb.before + len(REPORTED.findall(printed))
    check_readable(verb)
    have = completed(verb.runs)
    assert have >= reported, f"{reported} trials were reported, {have} are there"
    check_continued(verb)
    assert completed(verb.runs) >= (TRIALS if list_runs(verb.runs) else 0)


def check_import(verb: Verb, printed: str) -> None:
    check_readable(verb)
    have = {run.path.name for run in list_runs(verb.runs)}
    reported = set(re.findall(r"^archive: .*/([^/\n]+)$", printed, re.MULTILINE))
    assert have >= reported, f"{reported} were reported, {have} are there"
    said = verb.leadline(*verb.words)
    assert said.status == 0 or "error[run-exists]" in said.err, said.err
    verb.leadline("clean")
    check_readable(verb)
    assert [path for path in verb.runs.rglob(".*") if path.name != ".lock"] == []


def check_scrub(verb: Verb, printed: str) -> None:
    check_readable(verb)
    assert completed(verb.runs) == verb.before
    (run,) = list_runs(verb.runs)
    if "sealed anew" in printed:
        assert not holds_secret(run.path), "reported as scrubbed, and the secret is there"
    said = verb.leadline("scrub", run.path)
    assert said.status == 0, said.err
    assert verb.leadline("clean").status == 0
    assert not holds_secret(verb.runs)
    check_readable(verb)


def holds_secret(folder: Path) -> bool:
    return any(SECRET.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


CHECKS = {
    "run": check_trials,
    "resume": check_trials,
    "clean": check_trials,
    "import": check_import,
    "scrub": check_scrub,
}


def killed_run(verb: Verb) -> None:
    """Leave what `kill -9` leaves after the second trial."""
    arguments = ("run", "--target", f"dir:{verb.target}", *PLAN)
    said = verb.folder / "killed"
    with said.open("wb") as err:
        child = subprocess.Popen(
            command(*arguments), stdout=subprocess.DEVNULL, stderr=err,
            env=environment(verb.runs), start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + PATIENCE_S
        while len(REPORTED.findall(said.read_text())) < 2:
            assert child.poll() is None, said.read_text()
            assert time.monotonic() < until
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(PATIENCE_S)
    verb.before = completed(verb.runs)
    assert verb.before >= 2


def archive_with_secret(verb: Verb) -> None:
    """A sealed archive as an earlier version wrote it: with a secret."""
    from leadline.archive import layout
    from leadline.archive.reader import Run
    from leadline.archive.records import TrialRecord, read_record

    file = RECORDED / "randread-4k-qd1" / "fio.json"
    assert verb.leadline("import", "fio", file, "--run", "old").status == 0
    run = Run(verb.runs / "old")
    (folder,) = run.trial_folders
    (folder / layout.STDERR).write_text(f"key = {SECRET}\n")
    record_path = folder / layout.TRIAL_RECORD
    kept = read_record(record_path, TrialRecord)
    files = kept.files | {layout.STDERR: layout.digest_file(folder / layout.STDERR)}
    record_path.write_bytes(layout.encode(kept.model_copy(update={"files": files})))
    digests = {name: layout.digest_file(run.path / name) for name in layout.content_files(run.path)}
    manifest = run.manifest.model_copy(update={"files": digests})
    (run.path / layout.MANIFEST).write_bytes(layout.encode(manifest))
    assert verify(Run(run.path)).ok
    verb.before = completed(verb.runs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run without a cut, from which the rest of a run that was cut is replayed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "target").mkdir()
    done = subprocess.run(
        command("run", "--target", f"dir:{folder / 'target'}", *PLAN),
        env=environment(folder / "runs"), capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return folder / "runs"


def prepared(name: str, folder: Path, leadline: Leadline, whole: Path) -> Verb:
    verb = Verb(name=name, folder=folder, words=(), leadline=leadline, whole=whole)
    verb.target.mkdir(parents=True)
    if name == "run":
        verb.words = ("run", "--target", f"dir:{verb.target}", *PLAN)
    elif name == "resume":
        killed_run(verb)
        verb.words = ("run", "--resume", "@latest")
    elif name == "clean":
        killed_run(verb)
        verb.words = ("clean",)
    elif name == "import":
        verb.words = ("import", "fio", RECORDED / "randread-4k-qd1" / "fio.json", "--run", "study")
    else:
        archive_with_secret(verb)
        verb.words = ("scrub", "old")
    return verb


@pytest.mark.parametrize(("name", "share"), [
    ("run", 0.4), ("resume", 0.2), ("import", 0.15), ("clean", 0.1), ("scrub", 0.15),
])  # fmt: skip
def test_a_power_cut_loses_nothing_that_was_reported(
    name: str,
    share: float,
    tmp_path: Path,
    leadline: Leadline,
    whole: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace: power cuts do NOT get tested here")
    monkeypatch.setenv("LEADLINE_RUNS", str(tmp_path / "root" / "runs"))
    verb = prepared(name, tmp_path, leadline, whole)
    recording = verb.record()
    cuts = max(1, round(CUTS * share))
    problems = []
    done: Counter[Mode] = Counter()
    for number in range(cuts):
        chance = random.Random(f"{name} {number}")
        mode = chance.choice(MODES)
        cut = chance.randint(0, len(recording.events)) if number else len(recording.events)
        state = recording.state(cut, mode, chance)
        recording.restore(state)
        done[mode] += 1
        try:
            CHECKS[name](verb, recording.printed(cut))
        except AssertionError as error:
            what = recording.events[cut - 1] if cut else "the start"
            problems.append(f"cut {number} behind {what}, left: {mode}: {error}"[:1500])
    sys.stderr.write(
        f"{name}: {cuts} cuts in {len(recording.events)} events; left of what was not synced: "
        f"{', '.join(f'{mode} ({count})' for mode, count in done.items())}\n"
    )
    assert not problems, "\n".join([f"{len(problems)} cuts failed", *problems])
