"""Names of pools that say what the pool is: `rep3`, `ec-2-1`, `cephfs-rep2`, `rep3-virt`. Pure."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum

from leadline import errors
from leadline.errors import LeadlineError

# The pools of the published study, in its order.
STUDY = ("rep3", "rep3-virt", "rep3-enc", "rep2", "cephfs-rep3", "cephfs-rep2", "ec-2-1")
FORMS = (
    "repN          N copies of everything, for RBD (N from 2 to 10)",
    "ec-K-M        K data and M coding chunks, for the data of RBD images",
    "cephfs-repN   N copies, a further data pool of the cluster's CephFS",
    "repN-virt     repN, whose images have the features of virtual machines' disks",
    "repN-enc      repN on OSDs with dm-crypt",
)
_MOST_COPIES, _MOST_CHUNKS = 10, 32
_PATTERN = re.compile(
    r"(?P<cephfs>cephfs-)?rep(?P<size>[1-9]\d?)(?P<suffix>-virt|-enc)?|ec-(?P<k>[1-9]\d?)-(?P<m>[1-9]\d?)"
)


class Kind(StrEnum):
    REPLICATED = "replicated"
    ERASURE = "erasure"
    CEPHFS = "cephfs"
    VIRTUAL = "virtual"
    ENCRYPTED = "encrypted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolName:
    """A name taken apart. `size` is k + m of erasure coding; `k` and `m` are 0 otherwise."""

    text: str
    kind: Kind
    size: int
    k: int = 0
    m: int = 0

    @property
    def base(self) -> str:
        """The replicated pool of which a `-virt` or `-enc` name is a variant."""
        return f"rep{self.size}"

    @property
    def described(self) -> str:
        if self.kind is Kind.ERASURE:
            return f"erasure-coded {self.k}+{self.m}"
        return f"replicated, size {self.size}"


def pool_name(text: str) -> PoolName:
    """Raises LeadlineError(`usage`) with the forms that there are and the nearest name."""
    found = _parsed(text)
    if found is not None:
        return found
    near = difflib.get_close_matches(text, STUDY, n=1)
    raise LeadlineError(
        errors.USAGE,
        f"{text!r} is no name that says what the pool is",
        context=FORMS,
        hint=f"did you mean {near[0]!r}?" if near else f"the study's: {', '.join(STUDY)}",
    )


def is_pool_name(text: str) -> bool:
    return _parsed(text) is not None


def _parsed(text: str) -> PoolName | None:
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    if found["k"]:
        k, m = int(found["k"]), int(found["m"])
        if k < 2 or k + m > _MOST_CHUNKS:
            return None
        return PoolName(text=text, kind=Kind.ERASURE, size=k + m, k=k, m=m)
    size, suffix = int(found["size"]), found["suffix"]
    if not 2 <= size <= _MOST_COPIES or (found["cephfs"] and suffix):
        return None
    if found["cephfs"]:
        kind = Kind.CEPHFS
    else:
        kind = {None: Kind.REPLICATED, "-virt": Kind.VIRTUAL, "-enc": Kind.ENCRYPTED}[suffix]
    return PoolName(text=text, kind=kind, size=size)
