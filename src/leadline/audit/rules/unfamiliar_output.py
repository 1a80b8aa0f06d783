"""unfamiliar-output: something in the file that the parser does not know or did not take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import Rule, RuleFinding
from leadline.findings import Severity
from leadline.formats.result import EngineOutput, NoteKind

SHOWN = 5
# What cannot be (NoteKind.IMPOSSIBLE_VALUE) is told by inconsistent-figures.
_KINDS: Mapping[NoteKind, tuple[Severity, str, str]] = {
    NoteKind.UNKNOWN_FIELD: (
        Severity.WARNING,
        "The output has fields of which the parser does not know what they mean",
        "Look whether they change what the known figures mean (another unit, an edited file).",
    ),
    NoteKind.REPEATED_FIELD: (
        Severity.WARNING,
        "The output tells fields more than once",
        "Find out which of the values is right; a file that an encoder wrote has each once.",
    ),
    NoteKind.UNKNOWN_VERSION: (
        Severity.INFO,
        "The output is of a version that the parser was not tested with",
        "Hold a few figures against what the tool itself shows.",
    ),
    NoteKind.LEFT_OUT: (
        Severity.INFO,
        "Something was left out of the figures, or is not told",
        "Look into the file if it matters to you.",
    ),
}


def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    notes = trial.output.notes if isinstance(trial.output, EngineOutput) else ()
    for kind, (severity, fact, remedy) in _KINDS.items() if notes else ():
        found = [note for note in notes if note.kind is kind]
        if found:
            shown = "; ".join(f"{note.where}: {note.fact}" for note in found[:SHOWN])
            more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            yield RuleFinding(
                severity=severity,
                evidence={"notes": len(found)},
                message=f"{fact}: {shown}{more}.",
                remedy=remedy,
            )


RULE = Rule(
    code="unfamiliar-output",
    summary="The output has fields, a version or parts that the parser does not know.",
    looks_at=TrialEvidence,
    check=check,
)
