"""truncated-result: only a part of the trial was measured or stored."""

from __future__ import annotations

from collections.abc import Iterator

from leadline import errors
from leadline.archive.records import TrialRecord, TrialStatus
from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import FormatError

_AGAIN = "Run the trial again and let it end (`leadline run --resume`)."
_SOURCE = "Get the complete file from its source, or repeat the run."


@rule("truncated-result", "The trial was cut short, or its output was.", TrialEvidence)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    record, output = trial.record, trial.output
    if record is not None and record.status is TrialStatus.INTERRUPTED:
        yield RuleFinding(
            severity=Severity.ERROR,
            evidence={"wall_s": record.wall_s, "asked_s": record.asked_s},
            message=f"The trial was {_end(record)} after {record.wall_s:.1f} s of "
            f"{record.asked_s:.1f} s.",
            remedy=_AGAIN,
        )
        return
    if not trial.engine_ended:
        return  # engine-error reports it
    if isinstance(output, FormatError):
        if output.condition == "truncated-result":
            yield RuleFinding(
                severity=Severity.ERROR,
                message=f"{output.fact}{_where(output)}.",
                remedy=_SOURCE if trial.imported else _AGAIN,
            )
    elif trial.cut_by_signal:
        yield RuleFinding(
            severity=Severity.ERROR,
            message="A signal stopped fio early. Its output has error 0 and describes a part of "
            "the run.",
            remedy=_SOURCE if trial.imported else _AGAIN,
        )
    elif isinstance(trial.windows, FormatError):
        yield RuleFinding(
            severity=Severity.WARNING,
            message=f"A per-second log of the trial is unreadable ({trial.windows.fact}). Whether "
            "the trial was steady is unknown.",
            remedy="Get the log from its source again."
            if trial.imported
            else "Check the archive with `leadline verify`.",
        )


def _end(record: TrialRecord) -> str:
    guarded = record.problem is not None and record.problem.code == errors.GUARD_STOPPED.code
    return "stopped by the guard" if guarded else "interrupted"


def _where(error: FormatError) -> str:
    return f" ({error.context[0]})" if error.context else ""
