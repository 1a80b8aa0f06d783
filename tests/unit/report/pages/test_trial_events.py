"""Events on the strips of trials: disturbances of the cluster, and straggling clients."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from leadline.archive import layout
from leadline.archive.trial import StoredTrial
from leadline.findings import Finding, Severity
from leadline.metrics import Op
from leadline.plan.models import Cell
from leadline.plan.workload import Pattern
from leadline.report.document import Strip
from leadline.report.pages.trial_events import straggling, with_events
from tests.unit.audit.audit_archives import Stored, build, cell

RECORDED = Path(__file__).parents[3] / "recorded" / "ceph-status"
STRIP = Strip(spans=((0.0, 20.0, 1000.0),), end_s=20.0, text="trial t0001")


def trial(folder: Path, name: str = "osd-killed", one: Cell | None = None) -> StoredTrial:
    run = build(folder / "run", {"a": (one or cell(), [Stored()])})
    content = (RECORDED / name / layout.CLUSTER).read_bytes()
    (run.trial_folders[0] / layout.CLUSTER).write_bytes(content)
    stored = run.trials[0]
    return StoredTrial(stored.folder, one or stored.cell)


def test_what_happens_at_the_same_time_is_one_event(tmp_path: Path) -> None:
    drawn = with_events(STRIP, trial(tmp_path), Op.READ, ())
    assert {event.kind for event in drawn.events} == {"cluster"}
    ends = [(event.begin_s, event.end_s) for event in drawn.events]
    assert ends == sorted(ends)
    assert all(before[1] < after[0] for before, after in pairwise(ends))
    assert any("OSD_DOWN; " in event.text for event in drawn.events)
    assert all(0 <= event.begin_s < event.end_s <= STRIP.end_s for event in drawn.events)


def test_the_second_phase_begins_when_the_first_has_ended(tmp_path: Path) -> None:
    first = cell(runtime_s=4.0)
    write = first.workload.phases[0].model_copy(update={"pattern": Pattern.RANDWRITE})
    phases = (*first.workload.phases, write)
    both = first.model_copy(
        update={"workload": first.workload.model_copy(update={"phases": phases})}
    )
    stored = trial(tmp_path, one=both)
    reads = with_events(STRIP, stored, Op.READ, ()).events[0]
    writes = with_events(STRIP, stored, Op.WRITE, ()).events[0]
    assert reads.begin_s - writes.begin_s == 4.0
    twice = both.model_copy(
        update={"workload": first.workload.model_copy(update={"phases": (*phases, write)})}
    )
    assert with_events(STRIP, StoredTrial(stored.folder, twice), Op.WRITE, ()).events == ()


def test_a_quiet_or_unwatched_trial_has_no_event(tmp_path: Path) -> None:
    assert with_events(STRIP, trial(tmp_path, "quiet"), Op.READ, ()).events == ()
    bare = build(tmp_path / "bare", {"a": (cell(), [Stored()])}).trials[0]
    assert with_events(STRIP, bare, Op.READ, ()).events == ()
    assert with_events(STRIP, None, Op.READ, ()) is STRIP


def test_an_unreadable_record_is_left_to_the_audit(tmp_path: Path) -> None:
    stored = trial(tmp_path)
    (stored.folder / layout.CLUSTER).write_bytes(b"{")
    assert with_events(STRIP, StoredTrial(stored.folder, stored.cell), Op.READ, ()).events == ()


def test_a_straggler_is_marked_over_its_whole_trial(tmp_path: Path) -> None:
    finding = Finding(
        code="client-straggles", severity=Severity.WARNING, evidence={}, trial="t0001",
        message="Client c3 did half of the others.", remedy="",
    )  # fmt: skip
    other = Finding(
        code="not-steady", severity=Severity.WARNING, evidence={}, trial="t0002",
        message="", remedy="",
    )  # fmt: skip
    messages = straggling([finding, other])
    assert messages == {"t0001": "Client c3 did half of the others."}
    bare = build(tmp_path / "bare", {"a": (cell(), [Stored()])}).trials[0]
    (event,) = with_events(STRIP, bare, Op.READ, (), messages["t0001"]).events
    assert (event.kind, event.begin_s, event.end_s) == ("client", 0.0, 20.0)
