"""Lines of the volume lifecycle engine made by hand: every stage takes what a test says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from leadline.archive import layout
from leadline.archive.raw import derive, read_output
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus, Session, TrialRecord, TrialStatus
from leadline.archive.writer import RunWriter
from leadline.formats.volume_lifecycle import EVENTS_FILE, RECORD_FILE, TOOL, LifecycleReport
from leadline.formats.volume_lifecycle import parse_volume_lifecycle as parse
from leadline.plan.loader import Overrides, load_plan

BEGAN = 1_790_000_000.25
CREATED = "2026-11-25T04:00:00+00:00"
# Seconds of each stage; a volume's own are 10 % longer than those of the volume before.
SECONDS: Mapping[str, float] = {
    "place": 0.05,
    "provision": 0.4,
    "bind": 0.05,
    "attach": 0.2,
    "mount": 0.6,
    "vm-start": 0.8,
    "vm-boot": 12.0,
    "first-io": 0.03,
    "expand": 1.5,
    "snapshot": 0.3,
    "restore": 0.9,
    "clone": 0.7,
    "delete": 0.1,
    "reclaim": 0.25,
}
Entry = dict[str, Any]


def record(volumes: int = 4, **fields: Any) -> Entry:
    return {
        "schema": "leadline/volume-lifecycle/1",
        "request": {"name": "write", "volumes": volumes, "data_bytes": 1 << 24},
        "storage_class": "fast",
        "provisioner": "hostpath.csi.k8s.io",
        "immediate": False,
        "mode": "filesystem",
        "size_bytes": 1 << 30,
        "snapshot_class": "csi",
        "began_at": BEGAN,
        **fields,
    }


def lines(
    volumes: int = 4,
    seconds: Mapping[str, float] | None = None,
    round_trip_s: float = 0.004,
    *,
    guests: bool = False,
) -> list[Entry]:
    """All lines of a storm in which every volume passes every stage; with `guests` also those of
    virtual machines."""
    each = {**SECONDS, **(seconds or {})}
    found: list[Entry] = [
        {"line": "probe", "at_s": at / 100, "answered_s": at / 100 + round_trip_s}
        for at in range(5)
    ]
    for volume in range(1, volumes + 1):
        took = {stage: value * 1.1 ** (volume - 1) for stage, value in each.items()}
        found += _in_guest(volume, took) if guests else _new(volume, took)
        found += _copy(volume, "restored", took["restore"])
        found += _copy(volume, "cloned", took["clone"]) + _removal(volume, took)
    return found


def _asked(at: float, volume: int, verb: str, kind: str, role: str = "new") -> Entry:
    created = {"created_s": float(int(BEGAN + at))} if verb == "create" else {}
    return {
        "line": "asked",
        "at_s": at,
        "answered_s": at + 0.01,
        "role": role,
        "volume": volume,
        "verb": verb,
        "kind": kind,
        **created,
    }


def _seen(
    at: float, volume: int, kind: str, change: str = "modified", role: str = "new", **facts: Any
) -> Entry:
    return {
        "line": "seen",
        "at_s": at,
        "role": role,
        "volume": volume,
        "kind": kind,
        "change": change,
        "facts": facts,
    }


def _new(volume: int, took: Mapping[str, float]) -> list[Entry]:
    placed = 1.0 + took["place"]
    made = placed + took["provision"]
    bound = made + took["bind"]
    attached = bound + took["attach"]
    running = attached + took["mount"]
    node = 5_000.0 + running
    return [
        _asked(1.0, volume, "create", "claim"),
        _asked(1.0, volume, "create", "pod"),
        _seen(1.01, volume, "claim", "added", phase="Pending", node_selected=False),
        _seen(placed, volume, "claim", phase="Pending", node_selected=True),
        _seen(made, volume, "volume", "added", phase="Bound"),
        _seen(bound, volume, "claim", phase="Bound", node_selected=True, capacity_bytes=1 << 30),
        _seen(bound, volume, "pod", phase="Pending", node="node-1", running=False),
        _seen(bound, volume, "attachment", "added", attached=False),
        _seen(attached, volume, "attachment", attached=True),
        _seen(running, volume, "pod", phase="Running", node="node-1", running=True),
        {
            "line": "first-io",
            "at_s": running + 0.02,
            "answered_s": running + 0.06,
            "role": "new",
            "volume": volume,
            "started_s": node,
            "done_s": node + took["first-io"],
            "now_s": node + 0.05,
        },
        _asked(10.0, volume, "expand", "claim"),
        _seen(10.0 + took["expand"], volume, "claim", phase="Bound", capacity_bytes=2 << 30),
        _asked(20.0, volume, "create", "snapshot"),
        _seen(20.0 + took["snapshot"], volume, "snapshot", "added", ready=True),
    ]


def _in_guest(volume: int, took: Mapping[str, float]) -> list[Entry]:
    """The lines of a pod, but for the first I/O, which a guest does some seconds later: its clock
    was set meanwhile."""
    found = [entry for entry in _new(volume, took) if entry["line"] != "first-io"]
    running = next(entry["at_s"] for entry in found if entry.get("facts", {}).get("running"))
    started = running + took["vm-start"]
    booted = started + took["vm-boot"]
    for entry in found:
        if entry["at_s"] > running:
            entry["at_s"] += 20.0
    where: Entry = {"role": "new", "volume": volume}
    report: Entry = {
        "line": "first-io",
        "at_s": booted + 0.3,
        "answered_s": booted + 0.5,
        **where,
        "started_s": 5_000.0,
        "done_s": 5_000.0 + took["first-io"],
        "now_s": 5_000.4,
        "uptime_s": took["vm-boot"] - 1.0,
    }
    return [
        *found,
        _asked(1.0, volume, "create", "machine"),
        _seen(running, volume, "machine", "added", phase="Scheduled", node="", agent=False),
        _seen(started, volume, "machine", phase="Running", node="node-1", agent=False),
        report,
    ]


def _copy(volume: int, role: str, seconds: float) -> list[Entry]:
    at = 30.0 if role == "restored" else 40.0
    return [
        _asked(at, volume, "create", "claim", role),
        _seen(at + 0.1, volume, "claim", "added", role, phase="Pending", node_selected=True),
        _seen(at + 0.1 + seconds, volume, "claim", "modified", role, phase="Bound"),
    ]


def _removal(volume: int, took: Mapping[str, float]) -> list[Entry]:
    gone = 50.0 + took["delete"]
    return [
        _asked(50.0, volume, "delete", "claim"),
        _seen(gone, volume, "claim", "deleted", phase="Bound"),
        _seen(gone + took["reclaim"], volume, "volume", "deleted", phase="Released"),
    ]


def text_of(entries: list[Entry]) -> bytes:
    return b"".join(orjson.dumps(entry) + b"\n" for entry in entries)


def report(entries: list[Entry] | None = None, **fields: Any) -> LifecycleReport:
    found = lines() if entries is None else entries
    return parse(orjson.dumps(record(**fields)), text_of(found))


def make_run(
    folder: Path,
    seconds_of: Mapping[str, Mapping[str, float]],
    *,
    volumes: int = 8,
    repeats: int = 3,
    run_id: str = "lifecycle-20261125-040000",
) -> Run:
    """An archive of the profile on one StorageClass for each key; trials differ by 2 % a block."""
    urls = [f"{name}=storageclass:{name}" for name in seconds_of]
    overrides = Overrides(targets=urls, profiles=("volume-lifecycle",), repeats=repeats)
    plan = load_plan(None, overrides)
    session = Session(
        started_at=CREATED,
        hostname="bench-1",
        leadline_version="0.1.0",
        python_version="3.11.2",
    )
    writer = RunWriter.create(
        folder / run_id, plan=plan, plan_as_given=b"", created_at=CREATED, session=session
    )
    for trial in plan.trials:
        cell = plan.cells[trial.cell]
        own = {
            stage: value * (1 + 0.02 * trial.block)
            for stage, value in {**SECONDS, **seconds_of[cell.target]}.items()
        }
        with writer.staged(f"{layout.TRIALS}/{trial.id}-1") as staged:
            (staged / RECORD_FILE).write_bytes(orjson.dumps(record(volumes)))
            (staged / EVENTS_FILE).write_bytes(text_of(lines(volumes, own)))
            (staged / layout.DERIVED).write_bytes(layout.encode(derive(read_output(TOOL, staged))))
            RunWriter.write_trial(
                staged,
                TrialRecord(
                    trial=trial.id,
                    attempt=1,
                    target=cell.target,
                    workload=cell.workload.name,
                    level=cell.level,
                    block=trial.block,
                    status=TrialStatus.COMPLETED,
                    engine=TOOL,
                    engine_version=TOOL,
                    started_at=CREATED,
                    ended_at="2026-11-25T04:01:00+00:00",
                    wall_s=60.0,
                    asked_s=60.0,
                    bound_s=3600.0,
                ),
            )
    writer.seal(RunStatus.COMPLETE, ended_at="2026-11-25T04:10:00+00:00")
    writer.close()
    return Run(writer.path)
