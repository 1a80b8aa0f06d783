"""Explanations of a comparison as facts: cells, cited differences, and numbers. No words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.explain.accounts import Account, Estimate, Share
from leadline.analysis.explain.round_trips import Cost
from leadline.analysis.verdicts import Verdict
from leadline.metrics import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class CellGroup:
    """The operation cells of one explanation.

    `added_s` is (target, seconds that one I/O takes longer) for each cell where it is known.
    `streaming`: all of them are of large blocks. `sequential` counts cells whose I/Os ran one
    after the other in spite of a larger depth. `from_rates`: some seconds are computed from rates;
    `closed_loop` is then (depth, baseline IOPS, candidate IOPS) of a single cell.
    `percentiles_only`: no speed changed. `single_trials`: some intervals are those of published
    repeats.
    """

    ops: tuple[Op, ...]
    targets: tuple[str, ...]
    depths: tuple[int, ...]
    verdicts: tuple[tuple[Verdict, int], ...]
    streaming: bool = False
    added_s: tuple[tuple[str, float], ...] = ()
    sequential: int = 0
    from_rates: bool = False
    closed_loop: tuple[int, float, float] | None = None
    percentiles_only: bool = False
    single_trials: bool = False

    @property
    def count(self) -> int:
        return sum(count for _, count in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedValue:
    """One configuration difference behind a cause."""

    path: str
    target: str
    baseline: str
    candidate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A possible cause: its differences and the mechanisms from the table of effects.

    `applies` counts the cells with a verdict where it can be visible. Two kinds count against it:
    `unchanged` are the same, `opposed` changed against the direction of a longer or shorter path.
    """

    code: str
    label: str
    values: tuple[ChangedValue, ...]
    mechanisms: tuple[str, ...]
    named_by_path: bool = False
    applies: int = 0
    unchanged: int = 0
    opposed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What accounts for a change of some cells, or why an expected change is absent.

    `cells` are indices into `Comparison.cells`, `paths` those of the cited differences.
    `closes`: whether measured and expected change agree; None without an expectation.
    """

    paths: tuple[str, ...] = ()
    cells: tuple[int, ...]
    group: CellGroup
    closes: bool | None = None


class Isolation(StrEnum):
    """Whether round trips are visible alone: small I/Os, one in flight."""

    ISOLATED = "isolated"
    ALSO_ISOLATED = "also-isolated"  # the same path has isolated cells, too
    NEVER_ISOLATED = "never-isolated"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTest:
    """The test of round trips as the cause of one cell's change, in seconds."""

    target: str
    workload: str
    level: str
    op: Op
    measured: Estimate | None
    expected: Estimate
    share: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTripCost(Explanation):
    """A measured change next to the cost of round trips; `cost` is that of the first cell.

    `multiples` of the largest cost are those of sequential cells above it. `redundancy` is a change
    of copies or shards, `others` are causes besides network distance. `closes` is True where round
    trips account for the change, None where the data are inconclusive.
    """

    account: Account
    cost: Cost
    tests: tuple[CellTest, ...]
    isolation: Isolation
    multiples: tuple[int, int] | None = None
    redundancy: Cause | None = None
    others: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTripEvidence(Explanation):
    """The number of tested cells for each result of the test; `unchanged` of them are the same
    where round trips predict a change."""

    accounts: tuple[tuple[Account, int], ...]
    unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimited(Explanation):
    """Changes of rates at a limit, which round trips do not explain; `codes` of the findings."""

    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestCopyRead(Explanation):
    """Reads of the nearest copy: unchanged as expected, or slower in spite of it (`mixed`: some
    ran with writes)."""

    mixed: bool = False
    others: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedDespiteRoundTrips(Explanation):
    """No change, in spite of an expected cost in seconds."""

    expected: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedDespiteCause(Explanation):
    """No change beyond the equivalence margin, in spite of a difference that usually shows."""

    cause: Cause
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpliedRoundTrip(Explanation):
    """The unmeasured round trip, in seconds, that would account for the change of all `groups`.

    `common`: one length accounts for all of them; else each needs another length in the range.
    `isolated`: the cells had one I/O in flight.
    """

    groups: tuple[CellGroup, ...]
    least_s: float
    most_s: float
    common: bool
    isolated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleCauses(Explanation):
    """All causes that apply to the cells. `labels_only`: labels of a plan, without inventories.
    `given`: they are among the facts that a user gave, and other differences are unknown.
    `opposite`: their effect is known to be the opposite of the change. `inseparable` groups the
    codes of causes that apply to the same cells."""

    causes: tuple[Cause, ...]
    labels_only: bool = False
    given: bool = False
    opposite: bool = False
    inseparable: tuple[tuple[str, ...], ...] = ()


class Unknown(StrEnum):
    """Which configuration is unknown."""

    NONE = "none"
    BASELINE = "baseline"
    CANDIDATE = "candidate"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCause(Explanation):
    """A change without a known cause. `unmeasurable` counts the cells whose added latency is
    unknown, `depth_unknown`: because a depth is."""

    unknown: Unknown
    unmeasurable: int = 0
    depth_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreCores(Explanation):
    """A label that counts cores: a station with c servers has at most c times the rate of one.

    `factor` is that bound, `tested` the number of rates. The interval of the gain with more cores
    contains the bound (`proportional`), is above 1 and below the bound (`less`), above the bound
    (`beyond`, the gains), or below 1 (`lower`). `unchanged` cells with more than one I/O in flight
    count against cores as the limit. The rest is undecided.
    """

    key: str
    baseline: float
    candidate: float
    factor: float
    tested: int
    proportional: int
    less: int
    beyond: tuple[Estimate, ...]
    lower: int
    unchanged: int

    @property
    def undecided(self) -> int:
        decided = self.proportional + self.less + len(self.beyond) + self.lower + self.unchanged
        return self.tested - decided


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreCopies(Explanation):
    """A label that counts copies: writes wait for all of them, reads may gain.

    `writes` are the slower writes, `contradicting` the (operation, workload) that changed in the
    other direction.
    """

    key: str
    baseline: float
    candidate: float
    writes: CellGroup | None
    contradicting: tuple[tuple[Op, str], ...]
