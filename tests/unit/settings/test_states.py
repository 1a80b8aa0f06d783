"""States on real files and commands: applied, read back, restored after a kill at any moment."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline import errors
from leadline.archive.reader import unrestored
from leadline.archive.records import SettingChange, SettingStep
from leadline.errors import LeadlineError
from leadline.plan.models import Plan
from leadline.settings.host_file import HostFileParameter
from leadline.settings.open import Parameters
from leadline.settings.parameter import Host, same_value
from leadline.settings.states import States, restore_unrestored
from tests.unit.plan.test_matrix import load

VALUES = ["10", "20"]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Locks and marks of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Killed(BaseException):
    """The process ends here."""


class Steps:
    """The steps that an archive has, as its reader sees them. The process is killed `after` so many
    steps and writes."""

    def __init__(self, after: int | None = None) -> None:
        self.changes: list[SettingChange] = []
        self.after = after

    def note_change(self, change: SettingChange) -> None:
        self.changes.append(change)
        self.count()

    def count(self) -> None:
        if self.after is not None:
            self.after -= 1
            if self.after < 0:
                raise Killed

    @property
    def unrestored(self) -> tuple[tuple[SettingChange, ...], ...]:
        return unrestored(self.changes)

    @property
    def names(self) -> list[str]:
        return [f"{one.parameter and 'file'}:{one.step.value}" for one in self.changes]


def no_cluster(name: str) -> Any:
    raise AssertionError(f"no cluster is needed, and {name!r} is asked")


def plan_of(folder: Path, settings: dict[str, Any], **keys: Any) -> Plan:
    targets = [{"name": "here", "target": f"dir:{folder}"}]
    return load(folder, settings=settings, targets=targets, **keys)


def parameters() -> Parameters:
    return Parameters(no_cluster, no_cluster)


def files(folder: Path, count: int = 2) -> tuple[list[Path], dict[str, Any]]:
    paths = [folder / f"file-{number}" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_text(f"{number}\n")
    settings = {
        path.name: {"host_file": {"path": str(path), "values": [*VALUES]}} for path in paths
    }
    return paths, settings


@contextmanager
def opened(plan: Plan) -> Iterator[States]:
    states = States(parameters().find)
    try:
        states.require(plan)
        yield states
    finally:
        states.unlock()


def go_on() -> None:
    return


def test_states_follow_each_other_and_all_is_restored(tmp_path: Path) -> None:
    (one, two), settings = files(tmp_path)
    plan, journal = plan_of(tmp_path, settings), Steps()
    with opened(plan) as states:
        seen = []
        for target in plan.targets:
            states.enter(target, "run", journal, go_on)
            seen.append((one.read_text().strip(), two.read_text().strip()))
        assert seen == [("0", "1"), ("10", "1"), ("20", "1"), ("0", "10"), ("0", "20")]
        assert states.leave("run", journal) == ()
        assert states.leave("run", journal) == ()
    assert (one.read_text(), two.read_text()) == ("0\n", "1\n")
    assert not journal.unrestored
    first = next(change for change in journal.changes if change.parameter)
    assert (first.step, first.before, first.value) == (SettingStep.APPLY, "0", "10")


def test_a_value_that_does_not_stay_is_refused_and_restored(tmp_path: Path) -> None:
    path = tmp_path / "value"
    path.write_text("5\n")
    ceiling = tmp_path / "set.sh"
    ceiling.write_text(f'#!/bin/sh\n[ "$1" -gt 7 ] && set 7\necho "$1" > {path}\n')
    ceiling.chmod(0o755)
    command = {"apply": "./set.sh {value}", "read": f"cat {path}", "restore": "./set.sh {before}"}
    plan = plan_of(tmp_path, {"own": {"command": {**command, "values": ["6", "9"]}}})
    journal = Steps()
    with opened(plan) as states:
        states.enter(plan.target("here own=6"), "run", journal, go_on)
        assert path.read_text() == "6\n"
        for _ in range(2):
            with pytest.raises(LeadlineError, match="prints '7'") as raised:
                states.enter(plan.target("here own=9"), "run", journal, go_on)
            assert raised.value.kind is errors.SETTING_NOT_APPLIED
        assert path.read_text() == "5\n"
        states.enter(plan.target("here own=6"), "run", journal, go_on)
        assert states.leave("run", journal) == ()
    assert path.read_text() == "5\n"
    assert journal.names.count("file:refused") == 1


def test_what_an_outsider_changes_stays_and_ends_the_trials(tmp_path: Path) -> None:
    (one, _), settings = files(tmp_path)
    plan, journal = plan_of(tmp_path, settings), Steps()
    with opened(plan) as states:
        states.enter(plan.target("here file-0=10"), "run", journal, go_on)
        one.write_text("99\n")
        for name in ("here file-1=10", "here"):
            with pytest.raises(LeadlineError, match="which this run did not set") as raised:
                states.enter(plan.target(name), "run", journal, go_on)
            assert raised.value.kind is errors.SETTING_NOT_APPLIED
        (sentence,) = states.leave("run", journal)
    assert "file-0" in sentence
    assert "'99'" in sentence
    assert one.read_text() == "99\n"
    assert not journal.unrestored


def test_an_outsider_who_changes_a_value_before_it_is_applied(tmp_path: Path) -> None:
    (one, _), settings = files(tmp_path)
    plan, journal = plan_of(tmp_path, settings), Steps()
    with opened(plan) as states:
        one.write_text("99\n")
        with pytest.raises(LeadlineError, match="did not set"):
            states.enter(plan.target("here file-0=10"), "run", journal, go_on)
        assert len(states.leave("run", journal)) == 1
    assert one.read_text() == "99\n"


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    _, settings = files(tmp_path)
    plan = plan_of(tmp_path, settings)
    with opened(plan):
        with pytest.raises(LeadlineError) as raised:
            States(parameters().find).require(plan)
        assert raised.value.kind is errors.SETTINGS_IN_USE
    with opened(plan):
        pass


@pytest.mark.parametrize("content", [None, "x" * 5000])
def test_a_file_that_holds_no_value_is_refused(tmp_path: Path, content: str | None) -> None:
    (one, _), settings = files(tmp_path)
    one.unlink()
    if content:
        one.write_text(content)
    plan = plan_of(tmp_path, settings)
    with pytest.raises(LeadlineError) as raised, opened(plan):
        pass
    assert raised.value.kind is errors.SETTING_INVALID


def test_a_request_to_stop_ends_the_wait(tmp_path: Path) -> None:
    (one, _), settings = files(tmp_path)
    plan, journal = plan_of(tmp_path, settings), Steps()

    class Waiting(Host):
        def settle(self, go_on: Callable[[], None]) -> None:
            go_on()

    def stop() -> None:
        raise LeadlineError(errors.INTERRUPTED, "stopped")

    host = Waiting()
    find = lambda plan, setting, cluster: (HostFileParameter(str(tmp_path / setting.name), host),)  # noqa: E731
    states = States(find)
    states.require(plan)
    with pytest.raises(LeadlineError) as raised:
        states.enter(plan.target("here file-0=10"), "run", journal, stop)
    assert raised.value.kind is errors.INTERRUPTED
    assert states.leave("run", journal) == ()
    assert one.read_text() == "0\n"


class Counted(HostFileParameter):
    """A file whose writes may be the last that the process does."""

    steps: Steps

    def write(self, value: str) -> None:
        self.steps.count()
        super().write(value)
        self.steps.count()


@given(after=st.integers(0, 45), again=st.integers(0, 8), order=st.permutations(range(5)))
def test_a_kill_at_any_moment_is_undone(after: int, again: int, order: list[int]) -> None:
    """Also one while the leftovers of another kill are restored."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths, settings = files(folder)
        plan = plan_of(folder, settings)
        journal, host = Steps(after), Host()

        def find(plan: Plan, setting: Any, cluster: str) -> list[Counted]:
            found = Counted(str(folder / setting.name), host)
            found.steps = journal
            return [found]

        states = States(find)
        states.require(plan)
        try:
            for number in order:
                states.enter(plan.targets[number], "run", journal, go_on)
            states.leave("run", journal)
        except Killed:
            host.unlock()
        journal.after = again
        try:
            restore_unrestored(plan, "run", journal.unrestored, find, journal)
        except Killed:
            host.unlock()
        journal.after = None
        _, problems = restore_unrestored(plan, "run", journal.unrestored, find, journal)
        assert problems == []
        assert [path.read_text() for path in paths] == ["0\n", "1\n"]
        assert not journal.unrestored


@given(after=st.integers(0, 20))
def test_a_kill_never_overwrites_an_outsiders_value(after: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (path,), settings = files(folder, 1)
        plan = plan_of(folder, settings)
        journal, host = Steps(after), Host()

        def find(plan: Plan, setting: Any, cluster: str) -> list[Counted]:
            found = Counted(str(path), host)
            found.steps = journal
            return [found]

        states = States(find)
        states.require(plan)
        try:
            states.enter(plan.targets[1], "run", journal, go_on)
            states.enter(plan.targets[2], "run", journal, go_on)
        except Killed:
            pass
        host.unlock()
        changed = bool(host.marked_by())
        path.write_text("99\n")
        journal.after = None
        _, problems = restore_unrestored(plan, "run", journal.unrestored, find, journal)
        assert path.read_text() == "99\n"
        assert len(problems) == changed
        assert not journal.unrestored


def test_a_full_archive_does_not_keep_the_system_changed(tmp_path: Path) -> None:
    (one, _), settings = files(tmp_path)
    plan, journal = plan_of(tmp_path, settings), Steps()

    class Full(Steps):
        def note_change(self, change: SettingChange) -> None:
            raise LeadlineError(errors.ARCHIVE_UNWRITABLE, "no space left")

    with opened(plan) as states:
        states.enter(plan.target("here file-0=10"), "run", journal, go_on)
        (sentence,) = states.leave("run", Full())
        assert "no space left" in sentence
    assert one.read_text() == "0\n"
    done, problems = restore_unrestored(plan, "run", journal.unrestored, parameters().find, journal)
    assert (len(done), problems) == (1, [])


def test_nothing_is_run_or_written_for_an_archive_of_unknown_origin(tmp_path: Path) -> None:
    """Its journal may say anything; the mark that a run leaves on the system is missing."""
    (one, _), settings = files(tmp_path)
    trace = tmp_path / "trace"
    words = {key: f"touch {trace} {{{word}}}" for key, word in WORDS.items()}
    own = {"command": {**words, "read": f"touch {trace}", "values": ["1"]}}
    plan, journal = plan_of(tmp_path, {**settings, "own": own}), Steps()
    for setting, parameter in (("file-0", str(one)), ("own", f"touch {trace}")):
        for step in (SettingStep.APPLY, SettingStep.APPLIED):
            journal.note_change(
                SettingChange(
                    at="",
                    setting=setting,
                    cluster="",
                    parameter=parameter,
                    step=step,
                    before="7",
                    value="0",
                    read="0",
                )
            )
    find = parameters().find
    done, problems = restore_unrestored(plan, "run", journal.unrestored, find, journal)
    assert (done, len(problems)) == ([], 2)
    assert "has no mark of this run" in problems[0]
    assert one.read_text() == "0\n"
    assert not trace.exists()
    assert len(journal.unrestored) == 2
    # Restored by hand, a file is as it was; a command is run with consent only.
    one.write_text("7\n")
    _, (problem,) = restore_unrestored(plan, "run", journal.unrestored, find, journal)
    assert "`leadline clean run --allow-archived own`" in problem
    assert not trace.exists()
    restore_unrestored(plan, "run", journal.unrestored, find, journal, ["own"])
    assert trace.exists()


def kill_with_changes(plan: Plan, journal: Steps, *names: str) -> None:
    """Apply the settings of targets, and end as after kill -9."""
    states = States(parameters().find)
    states.require(plan)
    for name in names:
        states.enter(plan.target(name), "run", journal, go_on)
    states.unlock()


@pytest.mark.parametrize("kind", ["file", "command"])
def test_another_home_restores_nothing_and_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (one, _), settings = files(tmp_path)
    if kind == "command":
        one.write_text("0\n")
        words = {"apply": "{value}", "restore": "{before}"}
        command = {key: f"sh -c 'echo {word} > {one}'" for key, word in words.items()}
        settings = {"file-0": {"command": {**command, "read": f"cat {one}", "values": VALUES}}}
    plan, journal = plan_of(tmp_path, settings), Steps()
    kill_with_changes(plan, journal, "here file-0=10")
    before = list(journal.changes)
    with monkeypatch.context() as other:
        other.setenv("XDG_CACHE_HOME", str(tmp_path / "of-root"))
        done, problems = restore_unrestored(
            plan, "run", journal.unrestored, parameters().find, journal
        )
        assert done == []
        assert len(problems) == 1
        assert str(tmp_path / "cache") in problems[0]
        assert journal.changes == before
        assert one.read_text() == "10\n"
    done, problems = restore_unrestored(plan, "run", journal.unrestored, parameters().find, journal)
    assert (len(done), problems) == (1, [])
    assert one.read_text() == "0\n"
    assert not journal.unrestored
    with opened(plan):  # no mark remains
        pass


def test_a_mark_elsewhere_is_not_taken_for_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is restored but the mark: with another HOME it remains, and is recorded."""
    _, settings = files(tmp_path)
    plan, journal = plan_of(tmp_path, settings), Steps()
    kill_with_changes(plan, journal, "here file-0=10", "here")
    assert [steps[-1].parameter for steps in journal.unrestored] == [""]
    with monkeypatch.context() as other:
        other.setenv("XDG_CACHE_HOME", str(tmp_path / "of-root"))
        _, (problem,) = restore_unrestored(
            plan, "run", journal.unrestored, parameters().find, journal
        )
        assert "the mark of the run remains" in problem
        assert journal.unrestored
    assert restore_unrestored(plan, "run", journal.unrestored, parameters().find, journal)[1] == []
    assert not journal.unrestored
    with opened(plan):
        pass


@pytest.mark.parametrize("after", range(9))
def test_a_lost_mark_forgets_no_change(tmp_path: Path, after: int) -> None:
    """The user's cache was emptied after a kill, at any moment of the first change."""
    (path,), settings = files(tmp_path, 1)
    plan = plan_of(tmp_path, settings)
    journal, host = Steps(after), Host()

    def find(plan: Plan, setting: Any, cluster: str) -> list[Counted]:
        parameter = Counted(str(path), host)
        parameter.steps = journal
        return [parameter]

    states = States(find)
    states.require(plan)
    with suppress(Killed):
        states.enter(plan.targets[1], "run", journal, go_on)
    host.unlock()
    journal.after = None
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    changed = path.read_text() != "0\n"
    _, problems = restore_unrestored(plan, "run", journal.unrestored, find, journal)
    assert bool(problems) == changed
    assert bool(journal.unrestored) == changed
    path.write_text("0\n")
    assert restore_unrestored(plan, "run", journal.unrestored, find, journal)[1] == []
    assert not journal.unrestored


def test_a_plan_that_was_changed_restores_nothing(tmp_path: Path) -> None:
    (one, two), settings = files(tmp_path)
    plan, journal = plan_of(tmp_path, settings), Steps()
    kill_with_changes(plan, journal, "here file-0=10")
    other = plan.settings[0].change.model_copy(update={"path": str(two)})
    changed = plan.settings[0].model_copy(update={"host_file": other})
    edited = plan.model_copy(update={"settings": (changed, *plan.settings[1:])})
    done, problems = restore_unrestored(
        edited, "run", journal.unrestored, parameters().find, journal
    )
    assert (done, len(problems)) == ([], 1)
    assert (one.read_text(), two.read_text()) == ("10\n", "1\n")
    # So does a journal with another value before the run.
    forged = [change.model_copy(update={"before": "evil"}) for change in journal.changes]
    done, problems = restore_unrestored(plan, "run", unrestored(forged), parameters().find, journal)
    assert (done, len(problems)) == ([], 1)
    assert one.read_text() == "10\n"
    done, problems = restore_unrestored(plan, "run", journal.unrestored, parameters().find, journal)
    assert (len(done), problems) == (1, [])


WORDS = {"apply": "value", "restore": "before"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("4G", "4294967296", True),
        ("4K", "4000", True),
        ("0.5", "0.500000", True),
        ("yes", "true", True),
        ("a", "b", False),
        ("4G", "4", False),
        (None, None, True),
        (None, "", False),
    ],
)
def test_equal_values(one: str | None, other: str | None, same: bool) -> None:
    assert same_value(one, other) is same
