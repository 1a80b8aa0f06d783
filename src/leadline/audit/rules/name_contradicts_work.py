"""name-contradicts-work: a job called read that wrote, or random that was sequential."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from leadline.audit.evidence import JobEvidence
from leadline.audit.physics import MIXED
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.metrics import Op

# Words of a name: `SeqWrite64k` has Seq, Write, 64, k. `thread` and `spread` are other words.
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_ORDER = {
    **dict.fromkeys(("rand", "random", "rnd"), "random"),
    **dict.fromkeys(("seq", "sequential"), "sequential"),
}
_MIXES = frozenset({"readwrite", "randrw", "seqrw", "randreadwrite"})
_JOINED = re.compile(r"(rand|random|rnd|seq|sequential)?(read|write)(s|er|ers|ing)?")
# Options that make another order of what `rw` has.
_OTHER_ORDER = ("percentage_random", "zonemode", "file_service_type", "rw_sequencer")
_DONE = {Op.READ: "read", Op.WRITE: "write"}


@dataclass(frozen=True, slots=True)
class Said:
    """What a name says: directions, whether a mix, and the order next to a direction."""

    directions: frozenset[str]
    mixed: bool
    orders: frozenset[str]


@rule(
    "name-contradicts-work",
    "A job's name has another direction or order than its I/O.",
    JobEvidence,
)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    if evidence.merged_sections or evidence.verifies:
        return
    name = evidence.job.name
    said = words_of(name)
    done = {_DONE[part.op] for part in evidence.parts if part.op in _DONE}
    if not done or len(done) < len(evidence.parts):
        return
    fact = _direction(evidence, said, done) or _order(evidence, said)
    if fact:
        yield RuleFinding(
            severity=Severity.WARNING,
            evidence={f"{part.op.value}_ios": part.total_ios for part in evidence.parts},
            message=f"The job {name!r} {fact}. A table or a comparison by names shows it as "
            "another workload.",
            remedy="Use the figures for what was done, and correct the name or the option `rw`.",
        )


def words_of(name: str) -> Said:
    directions, orders, mixed, before = set(), set(), False, ""
    for word in (found.lower() for found in _WORD.findall(name)):
        joined = _JOINED.fullmatch(word)
        if word in _MIXES:
            mixed = True
        elif joined:
            directions.add(joined[2])
            order = _ORDER.get(joined[1] or before)
            orders |= {order} if order else set()
        elif word in _ORDER and _JOINED.fullmatch(before):
            orders.add(_ORDER[word])
        before = word
    return Said(frozenset(directions), mixed, frozenset(orders))


def _direction(evidence: JobEvidence, said: Said, done: set[str]) -> str:
    """Return the contradiction as a predicate; empty without one. A name with both words may
    describe anything (`read-after-write`)."""
    # A mix may have a share of reads of 0 or 100 %, as in a sweep.
    if said.mixed and not said.directions and len(done) == 1 and evidence.pattern not in MIXED:
        (only,) = done
        return f"did only {only}s, not a mix"
    if said.mixed or len(said.directions) != 1 or said.directions & done:
        return ""
    (called,), (did,) = said.directions, done
    return f"did {did}s, no {called}s"


def _order(evidence: JobEvidence, said: Said) -> str:
    raw = evidence.job.options.raw
    if evidence.pattern is None or len(said.orders) != 1 or any(key in raw for key in _OTHER_ORDER):
        return ""
    (called,) = said.orders
    did = "sequential" if evidence.sequential else "random"
    return f"is {did} (rw={evidence.pattern}), not {called}" if did != called else ""
