"""What labels that tell of cores and of copies let one expect: no cause that was found, but a bound
that the figures can be held against."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from leadline.analysis.comparison import Explanation
from leadline.analysis.explaining_words import observed, operation
from leadline.analysis.spots import CHANGED, Spot
from leadline.inventory.differences import Difference
from leadline.inventory.differences.words import listed
from leadline.label_words import is_number
from leadline.metrics import Op

CORES = frozenset({"cores", "cpus"})
REPLICAS = frozenset({"replicas", "copies"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A numbered label that differs, and the changed rates of the targets that it differs on."""

    key: str
    baseline: float
    candidate: float
    paths: tuple[str, ...]
    spots: tuple[Spot, ...]

    @property
    def words(self) -> str:
        return f"{self.key} {self.baseline:g} -> {self.candidate:g}"

    @property
    def cells(self) -> tuple[int, ...]:
        return tuple(index for spot in self.spots for index in spot.indices(CHANGED))


def expected_of_labels(
    spots: Sequence[Spot], differences: Iterable[Difference], arithmetic: Container[str]
) -> Iterator[Explanation]:
    """A sentence for each label. `arithmetic` names the targets whose copies are reckoned with
    already, their pools being known."""
    told = list(_told([spot for spot in spots if spot.speed in CHANGED], differences))
    for one in told:
        if one.key.lower() in CORES:
            yield _of_cores(one)
        elif not all(spot.target in arithmetic for spot in one.spots):
            yield _of_copies(one)


def _told(spots: Sequence[Spot], differences: Iterable[Difference]) -> Iterator[_Told]:
    found: dict[tuple[str, str, str], list[Difference]] = {}
    for one in differences:
        path, _, key = one.path.rpartition(".labels.")
        if path.startswith("targets.") and key.lower() in CORES | REPLICAS:
            found.setdefault((key, one.baseline, one.candidate), []).append(one)
    for (key, baseline, candidate), given in found.items():
        if (
            not (is_number(baseline) and is_number(candidate))
            or min(float(baseline), float(candidate)) <= 0
        ):
            continue
        targets = {one.target for one in given}
        on = tuple(spot for spot in spots if spot.target in targets)
        if on:
            yield _Told(
                key=key,
                baseline=float(baseline),
                candidate=float(candidate),
                paths=tuple(one.path for one in given),
                spots=on,
            )


def _of_cores(told: _Told) -> Explanation:
    """A station with c servers has at most c times the rate of one (io-paths: Mayastor)."""
    factor = max(told.baseline, told.candidate) / min(told.baseline, told.candidate)
    gains = [(spot, _gain(spot, told.candidate > told.baseline)) for spot in told.spots]
    known = [(spot, gain) for spot, gain in gains if gain is not None]
    beyond = [gain for spot, gain in known if gain > factor * (1 + _band(spot))]
    fewer = [gain for spot, gain in known if gain < 1 - _band(spot)]
    times = f"{factor:g} times"
    expected = (
        f"The label says {told.words}. Expected of {times} the cores are at most {times} the rate, "
        "where the cores are what limits, and nothing where they are not."
    )
    said = [expected]
    if beyond:
        said.append(
            f"{len(beyond)} of {len(known)} changed rates differ by more "
            f"({_span(beyond)}): the number of cores alone does not account for them."
        )
    if fewer:
        said.append(
            f"{len(fewer)} of {len(known)} are lower with more cores, which their number does not "
            "account for."
        )
    if known and not beyond and not fewer:
        said.append("The changed rates keep within that; whether cores limited was not observed.")
    return Explanation(
        paths=told.paths,
        cells=told.cells,
        text=" ".join(said),
        closes=not (beyond or fewer) if known else None,
    )


def _of_copies(told: _Told) -> Explanation:
    """Writes go to all copies at once and end with the slowest; reads are spread over them or come
    from one (io-paths: Mayastor, replicated write)."""
    more = told.candidate > told.baseline
    writes = [spot for spot in told.spots if spot.op is Op.WRITE]
    strange = []
    for spot in told.spots:
        gain = _gain(spot, more)
        if gain is None or spot.op not in (Op.READ, Op.WRITE):
            continue
        faster = gain > 1 + _band(spot)
        if faster if spot.op is Op.WRITE else gain < 1 - _band(spot):
            strange.append(spot)
    expected = (
        f"The label says {told.words}. Expected of more copies: a write ends when the last of them "
        "has it, one network round trip at least where a single copy lay on the client's own node; "
        "reads are no slower, and may gain where they are spread over the copies."
    )
    said = [expected]
    reckoned = [spot for spot in writes if spot.extra_s is not None and spot not in strange]
    if reckoned:
        said.append(f"{observed(reckoned)}; no round trip was measured to hold that against.")
    if strange:
        words = listed(f"{operation([spot]).lower()} of {spot.workload}" for spot in strange)
        slower = "against that, so that copies alone do not account for it"
        said.append(f"With more copies {words} changed {slower}.")
    return Explanation(
        paths=told.paths,
        cells=told.cells,
        text=" ".join(said),
        closes=False if strange else None,
    )


def _gain(spot: Spot, candidate_has_more: bool) -> float | None:
    """Rate with more over rate with fewer."""
    cell = next((cell for _, cell in spot.cells if cell.rate), None)
    figures = (cell.baseline, cell.candidate) if cell is not None else ()
    values = [one.value for one in figures if one is not None and one.value]
    if len(values) < 2:
        return None
    ours, theirs = values
    return theirs / ours if candidate_has_more else ours / theirs


def _band(spot: Spot) -> float:
    return max(cell.judgement.band for _, cell in spot.cells)


def _span(values: Sequence[float]) -> str:
    ends = dict.fromkeys(f"x {value:.3g}" for value in (min(values), max(values)))
    return " to ".join(ends)
