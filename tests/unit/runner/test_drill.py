"""The drill of a trial with real commands: in the journal first, and undone on every way out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Created
from leadline.archive.writer import RunWriter
from leadline.cli.options import this_session
from leadline.errors import LeadlineError
from leadline.formats.drill import DrillMark, Mark, parse_drill
from leadline.plan.drill import Drill, DrillCommand, DrillEvent
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.workload import Workload
from leadline.runner import drill as module
from leadline.runner.drill import TrialDrill
from leadline.runner.events import StopRequest
from leadline.runner.prepared import RunRequest
from leadline.targets.drill import (
    EventRecord,
    SystemEvent,
    check_drills,
    open_events,
    undo_leftover,
)
from leadline.targets.host_drain import DrainedHost
from leadline.targets.open import remove_leftovers

PLAN = """
targets: [{{name: here, target: "dir:{folder}"}}]
workloads: [{{name: w, pattern: randread, size: 1M, runtime: 60s}}]
drill: {{after: 5s, lasts: 5s, event: {{command: {{begin: "{begin}", end: "{end}"}}}}}}
repeats: 1
"""
BEGIN, END = "echo begin >> log", "echo end >> log"


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.format(folder=tmp_path, begin=BEGIN, end=END))
    made = RunWriter.create(
        tmp_path / "run",
        plan=load_plan(path, Overrides()),
        plan_as_given=b"",
        created_at="2026-11-21T00:00:00Z",
        session=this_session(),
    )
    yield made
    made.close()


def request(writer: RunWriter, event: Any = None, **more: Any) -> RunRequest:
    plan = writer.run.plan
    return RunRequest(
        plan=plan,
        to_do=plan.trials,
        targets=(),
        engines=None,  # type: ignore[arg-type]
        writer=writer,
        stop=StopRequest(),
        observe=lambda event: None,
        events={"here": event} if event else open_events(plan, {}),
        **more,
    )


def workload(writer: RunWriter, after_s: float = 0.05, lasts_s: float = 0.05) -> Workload:
    given = writer.run.plan.cells[0].workload
    assert given.drill is not None
    drill = Drill.model_construct(after=after_s, lasts=lasts_s, event=given.drill.event)
    return given.model_copy(update={"drill": drill})


def marks(folder: Path) -> list[Mark]:
    found = parse_drill((folder / layout.DRILL).read_bytes())
    return [mark.mark for mark in found if isinstance(mark, DrillMark)]


def log(folder: Path) -> list[str]:
    path = folder / "log"
    return path.read_text().split() if path.exists() else []


def test_the_event_begins_with_the_io_and_is_undone(writer: RunWriter, tmp_path: Path) -> None:
    run = request(writer)
    drill = TrialDrill(workload(writer), run, "here", tmp_path)
    drill.start()
    drill.progress(0.0)
    time.sleep(0.2)
    assert log(tmp_path) == [], "it waits for the first I/O"
    drill.progress(100.0)
    deadline = time.monotonic() + 10
    while log(tmp_path) != ["begin", "end"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert drill.finish() is None
    assert log(tmp_path) == ["begin", "end"]
    assert marks(tmp_path) == [Mark.BEGIN, Mark.BEGUN, Mark.END, Mark.ENDED]
    assert writer.run.left_behind == ()
    entries = (writer.path / layout.CREATED).read_text().splitlines()
    assert [json.loads(line)["removed"] for line in entries] == [False, True]


def test_an_engine_that_ends_early_ends_the_event(writer: RunWriter, tmp_path: Path) -> None:
    drill = TrialDrill(workload(writer, lasts_s=600.0), request(writer), "here", tmp_path)
    drill.start()
    drill.progress(100.0)
    deadline = time.monotonic() + 10
    while not log(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert drill.finish() is None
    assert log(tmp_path) == ["begin", "end"]


def test_a_trial_that_ends_before_its_drill_has_failed(writer: RunWriter, tmp_path: Path) -> None:
    drill = TrialDrill(workload(writer, after_s=600.0), request(writer), "here", tmp_path)
    drill.start()
    problem = drill.finish()
    assert problem is not None
    assert problem.code == errors.DRILL_FAILED.code
    assert log(tmp_path) == []


def test_an_event_that_fails_is_undone_and_reported(writer: RunWriter, tmp_path: Path) -> None:
    command = DrillCommand(begin="echo no >&2; exit 3", end=END, folder=str(tmp_path))
    event = SystemEvent("here", DrillEvent(command=command), None)
    drill = TrialDrill(workload(writer), request(writer, event), "here", tmp_path)
    drill.start()
    drill.progress(1.0)
    time.sleep(0.5)
    problem = drill.finish()
    assert problem is not None
    assert "ended with status 3" in problem.fact
    assert "no" in problem.context
    assert log(tmp_path) == ["end"]


def test_what_cannot_be_undone_stays_in_the_journal_for_clean(
    writer: RunWriter, tmp_path: Path
) -> None:
    command = DrillCommand(
        begin=BEGIN, end="test -e mended && echo end >> log", folder=str(tmp_path)
    )
    event = SystemEvent("here", DrillEvent(command=command), None)
    drill = TrialDrill(workload(writer), request(writer, event), "here", tmp_path)
    drill.start()
    drill.progress(1.0)
    time.sleep(0.5)
    assert drill.finish() is not None
    assert "is not undone" in event.leave(writer, StopRequest())[0]
    (left,) = writer.run.left_behind
    assert left.path == "drill:here"
    # The archive of another user must not make `clean` run a command.
    done, problems = remove_leftovers(writer.run, writer)
    assert done == []
    assert "--allow-drill here" in problems[0]
    assert log(tmp_path) == ["begin"]
    (tmp_path / "mended").touch()
    done, problems = remove_leftovers(writer.run, writer, ["here"])
    assert problems == []
    assert log(tmp_path) == ["begin", "end"]
    assert writer.run.left_behind == ()


def test_the_archive_of_another_user_brings_no_host_of_a_cluster_in(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        "clusters: {prod: {ceph_conf: /etc/ceph/ceph.conf}}\ntargets: ['rbd:p']\n"
        "workloads: [{name: w, pattern: randread, size: 1M, runtime: 60s}]\n"
        "drill: {after: 5s, event: {add_host: h4}}\n"
    )
    plan = load_plan(path, Overrides())
    drained = DrainedHost(host="h4", weights={7: 1.0}, swaps={}, balancer=True)
    drill = plan.cells[0].workload.drill
    assert drill is not None
    record = EventRecord(event=drill.event, drained=drained)
    created = Created(target="", cluster="prod", path="drill:prod", token=record.model_dump_json())
    asked: list[str] = []

    def access_to(cluster: str) -> None:
        asked.append(cluster)

    (problem,) = undo_leftover(created, plan, access_to, ())
    assert "`--allow-drill prod` brings the OSDs of the drained host in" in problem
    assert asked == []
    assert undo_leftover(created, plan, access_to, ["prod"]) == ()
    assert asked == ["prod"]


class Slow:
    """An event after which the system needs some looks until it is whole, and once falls back."""

    def __init__(self, *missing: tuple[str, ...], heals_within_s: float = 300.0) -> None:
        self._missing = list(missing)
        self.heals_within_s = heals_within_s
        self.undone = 0

    def prepare(self, journal: object, go_on: object) -> None: ...

    def begin(self, journal: object) -> None: ...

    def undo(self, journal: object) -> None:
        self.undone += 1

    def missing(self) -> tuple[str, ...]:
        return self._missing.pop(0) if len(self._missing) > 1 else self._missing[0]

    def leave(self, journal: object, stop: object) -> tuple[str, ...]:
        return ()


def test_the_system_is_whole_from_the_first_of_the_lasting_looks(
    writer: RunWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.02)
    monkeypatch.setattr(module, "_STEADY_S", 0.2)
    event = Slow((), ("1 OSD",), ("1 OSD",), ())
    drill = TrialDrill(workload(writer), request(writer, event), "here", tmp_path)
    drill.start()
    drill.progress(1.0)
    time.sleep(0.5)
    assert drill.finish() is None
    assert event.undone == 1
    found = {
        mark.mark: mark.elapsed_s
        for mark in parse_drill((tmp_path / layout.DRILL).read_bytes())
        if isinstance(mark, DrillMark)
    }
    assert found[Mark.ENDED] < found[Mark.WHOLE]


def test_a_system_that_does_not_become_whole_is_not_waited_for_without_end(
    writer: RunWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.02)
    event = Slow(("2 of 3 OSDs are up",), heals_within_s=0.1)
    drill = TrialDrill(workload(writer), request(writer, event), "here", tmp_path)
    drill.start()
    drill.progress(1.0)
    time.sleep(0.3)
    assert drill.finish() is None, "the numbers of the trial are good"
    assert Mark.WHOLE not in marks(tmp_path)


def test_consent_names_the_system(writer: RunWriter) -> None:
    plan = writer.run.plan
    with pytest.raises(LeadlineError) as raised:
        check_drills(plan, ())
    assert raised.value.kind is errors.DRILL_NOT_CONSENTED
    assert raised.value.hint == "`--allow-drill here` consents"
    with pytest.raises(LeadlineError) as raised:
        check_drills(plan, ("there",))
    assert raised.value.kind is errors.USAGE
    check_drills(plan, ("here",))
