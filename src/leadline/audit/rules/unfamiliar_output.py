"""unfamiliar-output: unknown or omitted parts of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import EngineOutput, Note, NoteKind

SHOWN = 5
# inconsistent-figures reports impossible values (NoteKind.IMPOSSIBLE_VALUE).
_KINDS: Mapping[NoteKind, tuple[Severity, str, str]] = {
    NoteKind.UNKNOWN_FIELD: (
        Severity.WARNING,
        "The output has unknown fields",
        (
            "Check whether they change the meaning of the known figures (another unit, an edited "
            "file)."
        ),
    ),
    NoteKind.REPEATED_FIELD: (
        Severity.WARNING,
        "The output repeats fields",
        "Find the correct value. Tools write each field once.",
    ),
    NoteKind.UNKNOWN_VERSION: (
        Severity.INFO,
        "The output has a version that was not tested",
        "Compare a few figures with the tool's own report.",
    ),
    NoteKind.LEFT_OUT: (
        Severity.INFO,
        "Parts of the output are not in the figures, or are missing",
        "Check the file if these parts matter.",
    ),
}


@rule(
    "unfamiliar-output",
    "The output has fields, a version or parts that the parser does not know.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    notes = trial.output.notes if isinstance(trial.output, EngineOutput) else ()
    for kind, (severity, fact, remedy) in _KINDS.items() if notes else ():
        found = [note for note in notes if note.kind is kind]
        if found:
            yield RuleFinding(
                severity=severity,
                evidence={"notes": len(found)},
                message=f"{fact}: {format_notes(found)}.",
                remedy=remedy,
            )


def format_notes(notes: Sequence[Note]) -> str:
    shown = "; ".join(f"{note.where}: {note.fact}" for note in notes[:SHOWN])
    return shown + (f"; and {len(notes) - SHOWN} more" if len(notes) > SHOWN else "")
