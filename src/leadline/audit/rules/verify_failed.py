"""verify-failed: what fio read back is not what it wrote."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import EngineOutput

# fio ends a job with EILSEQ where a block has another checksum or header than written.
FAILED = errno.EILSEQ
_MESSAGE = re.compile(r"verify(?: failed at file|: bad )[^\n]{0,120}")


@rule("verify-failed", "Data read back differ from the data written.", TrialEvidence)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    output = trial.output
    if not isinstance(output, EngineOutput):
        return
    failed = [job.name for job in output.jobs if job.error == FAILED]
    shown = _MESSAGE.search(output.noise)
    if not failed and shown is None:
        return
    where = f" ({shown.group().strip()})" if shown else ""
    who = f"The job {failed[0]!r}" if failed else "A job"
    yield RuleFinding(
        severity=Severity.ERROR,
        evidence={"jobs": len(failed) or None},
        message=f"{who} read back other data than were written{where}. The storage, the path to it "
        "or another writer changed them.",
        remedy="Do not use the figures, and do not trust the storage before the cause is found: "
        "another writer on the file, an old file without checksums, or damaged data.",
    )
