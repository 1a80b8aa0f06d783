"""Leadline in the guest, and what its archive says on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.verify import verify
from tests.guest.zfs_guest import Ended, ZfsGuest

# Without KVM a run of some trials takes minutes on a busy machine.
_RUN_S = 1500.0
_WAIT_S = 600.0
Answer = dict[str, Any]


def measured(guest: ZfsGuest, plan: str, into: Path, *options: object) -> Run:
    """The archive of a plan that the guest carried out in full, copied to this machine, whole."""
    ended = run(guest, plan, *options)
    assert ended.status in (0, 1), ended.err
    said = json.loads(ended.out)
    assert said["status"] == "complete"
    copied = Run(guest.fetch(said["path"], into / said["run"]))
    guest.sh(f"rm -r {said['path']}")
    assert verify(copied).problems == ()
    assert {trial.record.status for trial in copied.trials} == {TrialStatus.COMPLETED}
    return copied


def run(guest: ZfsGuest, plan: str, *options: object) -> Ended:
    """`leadline run` of a plan in the guest."""
    guest.write("/plan.yaml", plan)
    return guest.leadline("run", "/plan.yaml", "--format", "json", *options, bound_s=_RUN_S)


def begin(guest: ZfsGuest, plan: str, *options: object) -> None:
    """`leadline run` of a plan in the guest, beside what is asked of the guest next; `guest.end`
    waits for it."""
    guest.write("/plan.yaml", plan)
    guest.begin("run", "/plan.yaml", "--format", "json", *options)


def wait_for_trial(guest: ZfsGuest, trial: str) -> None:
    """Until a trial of the run that was begun is in the middle of its I/O: ZFS began to print of
    it some seconds ago."""
    printed = f"/var/runs/*/.staging/trials-{trial}-*/zpool-iostat.txt"
    guest.sh(
        f"until compgen -G '{printed}'; do ! [ -s /begun/ended ] || exit 3; sleep 1; done; sleep 3",
        bound_s=_WAIT_S,
    )


def answer(run: Run, verb: str) -> Answer:
    """What a verb that reads archives says of the run, on this machine, as JSON."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "leadline", verb, run.path.name),
            *("--runs", str(run.path.parent), "--format", "json"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stderr
    said: Answer = json.loads(done.stdout)
    return said


def flow(cell: Answer, kind: str, op: str, name: str = "") -> Answer:
    """What one layer of a cell of `leadline layers` does of one kind of operation."""
    (found,) = [
        flow
        for layer in cell["layers"]
        if layer["kind"] == kind and layer["name"].startswith(name)
        for flow in layer["flows"]
        if flow["op"] == op
    ]
    one: Answer = found
    return one


def kinds(run: Run, target: str) -> list[str]:
    """The kinds of layers below a target, from the top down."""
    return [layer.kind.value for layer in run.stacks[target]]
