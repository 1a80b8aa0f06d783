"""client-missing: a concurrent client of the trial has no result."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import EngineOutput, NoteKind


@rule("client-missing", "A concurrent client of the trial has no result.", TrialEvidence)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    if not isinstance(trial.output, EngineOutput):
        return
    missing = [note.where for note in trial.output.notes if note.kind is NoteKind.MISSING_CLIENT]
    if not missing:
        return
    clients = len({job.host for job in trial.output.jobs})
    named = [name for name in missing if name != "unknown"]
    names = f" ({', '.join(named[:5])})" if named else ""
    yield RuleFinding(
        severity=Severity.ERROR,
        evidence={"clients": clients, "missing": len(missing)},
        message=f"{len(missing)} of {clients + len(missing)} clients have no result{names}. "
        "The sum of the others is not the rate of the trial.",
        remedy="Get the files of the missing clients, or repeat the trial.",
    )
