"""What Leadline says of an input, by its own command line: the one place that knows how."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.audit.labels import CRASHED, REFUSED
from leadline.audit.registry import RULES
from leadline.cli.main import main
from leadline.findings import Severity

CODES = frozenset(rule.code for rule in RULES)
_NOTHING_TAKEN = "error[import-refused]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accusation:
    """One finding, or that the input was refused, or that the audit failed."""

    code: str
    severity: Severity
    target: str = ""
    workload: str = ""
    message: str

    @property
    def serious(self) -> bool:
        """An info is context, not an accusation."""
        return self.severity is not Severity.INFO


def accusations(paths: Sequence[Path]) -> tuple[Accusation, ...]:
    """`leadline audit PATH...` in this process."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        main(["audit", *map(str, paths), "--format", "json"])
    return tuple(_read(output.getvalue(), errors.getvalue()))


def _read(answer: str, errors: str) -> Iterator[Accusation]:
    if not answer:
        code = REFUSED if errors.startswith(_NOTHING_TAKEN) else CRASHED
        yield Accusation(code=code, severity=Severity.ERROR, message=errors.strip())
        return
    document = json.loads(answer)
    for one in document["findings"]:
        yield Accusation(
            code=one["code"],
            severity=Severity(one["severity"]),
            target=one["target"],
            workload=one["workload"],
            message=one["message"],
        )
    for one in document["refused"]:
        reason = f"{one['file']}: {one['reason']}"
        yield Accusation(code=REFUSED, severity=Severity.ERROR, message=reason)
