"""Format numbers, names and verdicts for readers, the same in every renderer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from rich.cells import cell_len, set_cell_size

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.figures import Absence, MetricFigure
from leadline.analysis.verdicts import Evidence, Judgement, Reason, Verdict
from leadline.findings import Severity
from leadline.metrics import STAGES, Metric, Op
from leadline.plan.workload import EngineChoice, Pattern, Phase, Recorded, Workload
from leadline.stats.histogram import samples_needed
from leadline.text import count_text as count_text
from leadline.text import visible as visible
from leadline.units import (
    format_bandwidth,
    format_block_size,
    format_duration,
    format_iops,
    format_latency,
    format_size,
    round_significant,
)

MISSING = "missing"
NOT_SHOWN = "–"
_TITLES = {
    Metric.IOPS: "IOPS",
    Metric.BANDWIDTH: "bandwidth",
    Metric.LATENCY_MEAN: "mean latency",
    Metric.LATENCY_P50: "p50 latency",
    Metric.LATENCY_P95: "p95 latency",
    Metric.LATENCY_P99: "p99 latency",
    Metric.LATENCY_P999: "p99.9 latency",
    Metric.LATENCY_P9999: "p99.99 latency",
    Metric.STORAGE_CPU: "storage processor time per I/O",
    Metric.CLIENT_CPU: "client processor time per I/O",
    Metric.DISK_BYTES: "disk bytes per I/O",
    Metric.NETWORK_BYTES: "storage network bytes per I/O",
    Metric.STORAGE_MEMORY: "storage memory",
}


def title(metric: Metric, op: Op | None = None) -> str:
    """Name a metric; the rate of transactions or fsyncs is not called IOPS."""
    if metric is Metric.IOPS and op in (Op.TRANSACTION, Op.SYNC):
        return "rate"
    return _TITLES[metric]


def value_text(metric: Metric, value: float) -> str:
    """Format a value; latencies and costs have their unit, columns name that of rates."""
    if metric is Metric.IOPS:
        return format_iops(value)
    if metric is Metric.BANDWIDTH:
        return format_bandwidth(value)
    return format_size(value) if metric.unit == "bytes" else format_latency(value)


def value_with_unit(metric: Metric, value: float, op: Op | None = None) -> str:
    if metric is Metric.IOPS and op in (Op.TRANSACTION, Op.SYNC):
        return f"{value_text(metric, value)}/s"
    unit = {Metric.IOPS: " IOPS", Metric.BANDWIDTH: " MiB/s"}.get(metric, "")
    return value_text(metric, value) + unit


_ABSENCES = {
    Absence.NO_COMPLETED_TRIAL: "no completed trial",
    Absence.NOT_REPORTED: "the completed trials did not report it",
    Absence.NOT_MEASURED: "not measured",
    Absence.NO_HISTOGRAM: "no latency histogram of every trial",
}


def absence_text(figure: MetricFigure | None) -> str:
    """Say why a figure has no value; empty where it has one, or there is no figure."""
    if figure is None or figure.absence is None:
        return ""
    if figure.absence is Absence.TOO_FEW_IOS:
        needed = samples_needed(figure.metric.quantile or 0.0)
        return f"{figure.ios:,} I/Os are fewer than the {needed:,} it needs"
    return _ABSENCES[figure.absence]


def share_text(share: float) -> str:
    """Format a share in per cent: `0.4 %`, `12 %`."""
    percent = round_significant(share * 100)
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %"


def listed(items: Iterable[str], limit: int = 5) -> str:
    """Join items: `a, b and c`; after `limit` the rest is counted."""
    given = list(items)
    if len(given) > limit:
        return f"{', '.join(given[:limit])} and {len(given) - limit:,} more"
    if len(given) < 2:
        return "".join(given)
    return f"{', '.join(given[:-1])} and {given[-1]}"


def severities_text(severities: Iterable[Severity]) -> str:
    """`2 errors and 3 warnings`; `no warning` without any."""
    counts = Counter(severities)
    severe = (Severity.ERROR, Severity.WARNING)
    texts = [count_text(counts[one], one.value) for one in severe if counts[one]]
    return listed(texts) or "no warning"


def op_text(op: Op | None) -> str:
    return "–" if op is None else op.value


# The names of levels on the page that is being built, by the level.
_LEVEL_NAMES: ContextVar[Mapping[str, str]] = ContextVar("level names")


@contextmanager
def short_levels(levels: Iterable[str]) -> Iterator[str]:
    """Leave out of the names of levels, in `place` and `level_name`, the settings (`key=value`)
    that all `levels` of a page share; give these for its subtitle, empty without any."""
    words = {level: level.split(" ") for level in levels}
    first = next(iter(words.values()), [])
    shared = [word for word in first if "=" in word and all(word in w for w in words.values())]
    names = {
        level: " ".join(word for word in mine if word not in shared)
        for level, mine in words.items()
    }
    # Every level keeps a name of its own.
    if not shared or not all(names.values()) or len(set(names.values())) < len(names):
        yield ""
        return
    token = _LEVEL_NAMES.set(names)
    try:
        yield f"all levels: {' '.join(shared)}"
    finally:
        _LEVEL_NAMES.reset(token)


def level_name(level: str) -> str:
    """Return the name of a level on the page that is being built (`short_levels`)."""
    return _LEVEL_NAMES.get({}).get(level, level)


def place(*parts: str) -> str:
    """Join the known parts of a place; `whole run` without any. A level has its `level_name`."""
    return " · ".join(level_name(part) for part in parts if part) or "whole run"


def evidence_text(name: str, value: float) -> str:
    """Format a number of evidence by the unit at the end of its name."""
    value = round_significant(value)
    if name.endswith("_s"):
        return format_latency(value) if abs(value) < 1 else format_duration(value)
    if name.endswith("_bps"):
        return f"{format_bandwidth(value)} MiB/s"
    if name.endswith("_bytes"):
        return format_size(value)
    if name.endswith("_share"):
        return share_text(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def evidence_name(name: str) -> str:
    for suffix in ("_s", "_bps", "_bytes"):
        if name.endswith(suffix):
            name = name[: -len(suffix)]
            break
    return name.replace("_", " ")


def phase_text(phase: Phase, job: str = "job", together: str = "") -> str:
    """`randread 4k, depth 32, 4 jobs, 1 GiB each`; `together`: of what the size is, if not each."""
    mixed = f" {phase.read_share}/{100 - phase.read_share}" if phase.read_share else ""
    jobs = count_text(phase.numjobs, job)
    each = together or (" each" if phase.numjobs > 1 else "")
    if phase.sharing is not None:
        each = " shared"
    fsync = f", fsync every {phase.fsync}" if phase.fsync else ""
    return (
        f"{phase.pattern.value}{mixed} {format_block_size(phase.block_size)}, "
        f"depth {phase.iodepth}, {jobs}, {format_size(phase.size)}{each}{fsync}"
    )


# The options that describe a load, in the usual order.
_LOAD_OPTIONS = ("rw", "bs", "rwmixread", "iodepth", "numjobs", "ioengine", "direct", "size")


def recorded_text(recorded: Recorded) -> str:
    """Format the load of an imported result by fio's options."""
    options = [
        f"{key}={recorded.options[key]}"
        for key in (*_LOAD_OPTIONS, "runtime")
        if key in recorded.options
    ]
    return f"imported from {recorded.tool}: {' '.join(options) or 'unknown settings'}"


# What the scripts of pgbench do.
DATABASE_WORK = {
    Pattern.RANDRW: "transactions of a bank (TPC-B)",
    Pattern.RANDWRITE: "updates of accounts",
    Pattern.RANDREAD: "reads of accounts",
}


def workload_text(workload: Workload) -> str:
    """Describe the load of a workload in a sentence without a full stop."""
    if workload.recorded:
        return recorded_text(workload.recorded)
    if workload.job_file:
        what = f"the job file {workload.job_file.path}"
        return f"{what}, {format_duration(workload.duration_s)} in all"
    phases = "; then ".join(phase_text(phase) for phase in workload.phases)
    ramp = f" after {format_duration(workload.ramp_s)} ramp" if workload.ramp_s else ""
    if workload.lifecycle:
        data = format_size(sum(phase.size for phase in workload.phases))
        volumes = count_text(workload.clients, "volume") if workload.clients else "volumes"
        return f"life of {volumes} at once, {data} of data in each"
    if workload.streams:
        size = format_size(sum(phase.size for phase in workload.phases))
        lasts = format_duration(workload.runtime_s)
        jobs = workload.phases[0].numjobs
        each = f" each, {jobs} at the same time" if jobs > 1 else ""
        return f"zfs send | zfs receive of {size}{each}, whole streams for {lasts}{ramp}"
    if workload.database:
        (phase,) = workload.phases
        connections = count_text(phase.numjobs, "connection")
        lasts = format_duration(workload.runtime_s)
        size = format_size(phase.size)
        return f"pgbench, {DATABASE_WORK[phase.pattern]}, {connections}, {size}, {lasts}{ramp}"
    if workload.engine is EngineChoice.SYSBENCH:
        phases = f"sysbench fileio, {phase_text(workload.phases[0], 'thread', ' in all')}"
    each = " each" if len(workload.phases) > 1 else ""
    cache = "direct" if workload.direct else "through the page cache"
    return f"{phases}; {cache}, {format_duration(workload.runtime_s)}{ramp}{each}"


def shortened(text: str, width: int) -> str:
    """Shorten text to `width` terminal cells in its middle: names differ at either end. Of
    settings (`key=value key=value`), the keys are shortened."""
    if cell_len(text) <= width:
        return text
    pairs = [word.partition("=") for word in text.split(" ")]
    if all(key and value for key, _, value in pairs):
        for most in range(max(len(key) for key, _, _ in pairs) - 1, 0, -1):
            shown = " ".join(
                f"{key if len(key) <= most + 1 else f'{key[:most]}…'}={value}"
                for key, _, value in pairs
            )
            if cell_len(shown) <= width:
                return shown
    if width < 3:
        return set_cell_size(text, max(0, width)).rstrip()
    head = (width - 1) // 2
    tail = width - 1 - head
    ending = text
    while cell_len(ending) > tail:
        ending = ending[1:]
    return f"{set_cell_size(text, head).rstrip()}…{ending}"


def filled(text: str, width: int) -> str:
    """Shorten or pad text to exactly `width` terminal cells."""
    return set_cell_size(shortened(text, width), width)


# Verdicts of a test with a result, in the order of counts.
JUDGED = (Verdict.WORSE, Verdict.SAME, Verdict.BETTER)
_COUNTED = (
    *(verdict.value for verdict in JUDGED),
    Verdict.INCONCLUSIVE.value,
    Verdict.NOT_COMPARABLE.value,
    "missing",
)
# Larger changes are factors instead of percentages.
_FACTOR_FROM = 10.0
# In a range with a factor the smaller change is a factor, too, from this ratio on.
_DOUBLE = 2.0
# Longest name in a sentence, in characters.
_LONGEST_NAME = 48
EVIDENCE_TEXTS = {
    Evidence.TRIALS: "trials of each system",
    Evidence.WITHIN_RUN: "one trial, by its own seconds and the published scatter of repeats",
    Evidence.ONE_NUMBER: "one number per system, tested by the margin alone",
    Evidence.NONE: "no evidence",
}
NO_DIFFERENCE = "a limit was measured, which shows no difference"
_REASONS = {
    "workload-differs": "the workloads differ",
    Reason.MISSING_BASELINE: "the baseline has no number",
    Reason.MISSING_CANDIDATE: "the candidate has no number",
    Reason.ZERO: "a number of zero has no ratio",
    Reason.CAPPED: NO_DIFFERENCE,
    Reason.CAPPED_BY_BUDGET: "a system reached the budget of its guard and may do more",
    Reason.INTERVAL_CROSSES_BAND: "the interval crosses the equivalence margin",
    Reason.P_NOT_SMALL: "significant alone, not among so many cells (adjusted p above 5 %)",
    Reason.ACROSS_RUNS: "two runs: the interval includes the variation between runs",
    Reason.ACROSS_GROUPS: "two groups, one after the other: the interval includes the variation "
    "between them, assumed as between runs",
    Reason.NOT_INTERLEAVED: "the order of imported trials is unknown: the interval allows for "
    "trials that follow their predecessor",
    Reason.SEVERAL_RUNS: "several runs of a system: each run counts as one value, the mean of its "
    "trials",
    Reason.INCOMPLETE_RUNS: "a run has no number: only the other runs count",
    Reason.RUNS_DIFFER: "the runs of one system did different work",
    Reason.CORRELATED: "trials follow their predecessor, which widens the interval",
    Reason.WILD_TRIAL: "a trial is far from the others: trimmed means",
    Reason.INCOMPLETE_BLOCKS: "trials without a partner in their block are left out",
    Reason.IDENTICAL_TRIALS: "every trial of both runs has the same value: possibly one data set",
    Reason.OWN_SCATTER: "only the cell's own scatter: fewer than three comparable cells, or two "
    "trials of cells that scatter unevenly",
    Reason.SINGLE_TRIAL: "one trial of a system does not show how repeats differ",
    Reason.WITHIN_RUN_EVIDENCE: "tested with the seconds within the trials",
    Reason.NO_WITHIN_RUN_EVIDENCE: "the seconds within the trial are unknown",
    Reason.REPEATS_MAY_DIFFER: "the change is within the known difference between repeats",
    Reason.BAND_ONLY: "published figures without repeats, tested by the margin alone",
    Reason.NO_TRIAL_VALUES: "not every trial reports this number",
    Reason.TRIAL_NOT_POSITIVE: "a trial's value is zero",
    Reason.NOISE_FLOOR: "the equivalence margin is the measured noise floor",
    Reason.GROUP_SEQUENTIAL: "tested after each round to end the run: the interval is wider, so "
    "that it holds at all looks",
}
OP_NOUNS = {
    Op.WRITE: "writes",
    Op.READ: "reads",
    Op.TRIM: "trims",
    Op.TOTAL: "mixed reads and writes",
    Op.SYNC: "fsyncs",
    Op.TRANSACTION: "transactions",
    **{stage: stage.value for stage in STAGES},
}


def short(name: str, most: int = _LONGEST_NAME) -> str:
    """Cut a name for a sentence in its middle where it is very long."""
    if len(name) <= most:
        return name
    return f"{name[: most // 2]}…{name[-most // 2 + 1 :]}"


def reason_text(code: str) -> str:
    """Word a reason of a verdict; the code of a finding has its own page."""
    return _REASONS.get(code, f"refused by the audit for {code}")


def reason_words(code: str) -> str:
    """A reason in a table's cell: `interval crosses band`; a finding's code stays one."""
    return code.replace("-", " ") if code in _REASONS and code != "workload-differs" else code


def percent_text(share: float) -> str:
    """Format a share in per cent without its sign: `3.4 %`, `120 %`."""
    percent = round_significant(abs(share) * 100)
    return f"{percent:,.0f} %" if percent >= 99.95 else f"{percent:.1f} %"


def band_text(band: float) -> str:
    """Format an equivalence margin: `5 %`, `7.5 %`."""
    return f"{band * 100:.3g} %"


def change_text(ratio: float) -> str:
    """Format a ratio as a change: `-13.7 %`, `+4.0 %`, and `x 12.5` from ten times on."""
    ratio = round_significant(ratio)
    if ratio >= _FACTOR_FROM:
        return f"x {ratio:,.0f}" if ratio >= 100 else f"x {ratio:.1f}"
    text = percent_text(ratio - 1)
    if text == "0.0 %":
        return text
    return ("+" if ratio > 1 else "-") + text


def level_text(level: float) -> str:
    """Format a confidence level: `95 %`, `99.88 %`."""
    return f"{level * 100:.6g} %" if level >= 0.9999 else f"{level * 100:.4g} %"


def interval_text(interval: tuple[float, float]) -> str:
    return f"{change_text(interval[0])} to {change_text(interval[1])}"


def span_text(ratios: Iterable[float], less: str, more: str) -> str:
    """Format a range of ratios: `13.7 to 26.9 % slower`, `from 3.0 % slower to 8.1 % faster`.

    Raises ValueError without a ratio.
    """
    ordered = sorted(ratios)
    low, high = ordered[0], ordered[-1]
    if low < 1 < high:
        # `less bandwidth` and `more bandwidth` need to say bandwidth once.
        shared = less.partition(" ")[2]
        first = less.partition(" ")[0] if shared and more.endswith(f" {shared}") else less
        return f"from {_size(low)} {first} to {_size(high)} {more}"
    if low == high == 1:
        return f"0.0 % {more}"
    word = less if low < 1 else more
    near, far = (high, low) if low < 1 else (low, high)
    texts = list(dict.fromkeys((_size(near), _size(far))))
    if len(texts) == 1:
        return f"{texts[0]} {word}"
    first, second = texts
    if second.endswith(" %"):
        first = first.removesuffix(" %")
    elif near >= _DOUBLE:
        # One unit for both ends.
        first = f"{near - 1:.1f}" if near < _FACTOR_FROM else first.removesuffix(" times")
    return f"{first} to {second} {word}"


def _size(ratio: float) -> str:
    """Format the distance of a ratio from 1; the word after it has the direction."""
    ratio = round_significant(ratio)
    if ratio >= _FACTOR_FROM:
        return f"{ratio - 1:,.0f} times"
    return percent_text(ratio - 1)


def counts_text(cells: Sequence[ComparedCell]) -> str:
    """Count cells per verdict: `worse in 9 and same in 4 of 13 cells`."""
    counts: dict[str, int] = dict.fromkeys(_COUNTED, 0)
    for cell in cells:
        counts["missing" if absent(cell) else cell.verdict.value] += 1
    parts = [f"{word} in {count:,}" for word, count in counts.items() if count]
    return f"{listed(parts)} of {count_text(len(cells), 'cell')}"


def absent(cell: ComparedCell) -> bool:
    """Whether one of the systems has no number."""
    return any(side is None or side.value is None for side in (cell.baseline, cell.candidate))


def judged(cells: Iterable[ComparedCell]) -> list[ComparedCell]:
    """Select the cells with a result of a test."""
    return [cell for cell in cells if cell.verdict in JUDGED and cell.judgement.ratio is not None]


def ratios(cells: Iterable[ComparedCell]) -> list[float]:
    return [cell.judgement.ratio for cell in cells if cell.judgement.ratio is not None]


def where(cell: ComparedCell) -> str:
    """Name a compared cell in a sentence: target, workload, level and operation."""
    op = cell.op.value if cell.op else ""
    return place(short(cell.target), short(cell.workload), cell.level, op)


def words_of(cells: Iterable[ComparedCell]) -> tuple[str, str]:
    """Choose the words for less and for more of the metrics of cells."""
    cells = tuple(cells)
    metrics = {cell.metric for cell in cells}
    if all(metric.lower_is_better for metric in metrics):
        return "lower", "higher"
    if metrics == {Metric.IOPS}:
        if {cell.op for cell in cells} <= {Op.TRANSACTION, Op.SYNC}:
            return "fewer per second", "more per second"
        return "fewer IOPS", "more IOPS"
    if metrics == {Metric.BANDWIDTH}:
        return "less bandwidth", "more bandwidth"
    return "slower", "faster"


def p_text(p: float | None) -> str:
    if p is None:
        return NOT_SHOWN
    return "< 0.001" if p < 0.001 else f"{round_significant(p):.3f}"


def needed_text(judgement: Judgement) -> str:
    """Format the trials or runs that an inconclusive test needs; empty where unknown."""
    if judgement.trials_needed is None:
        return ""
    noun = "runs" if judgement.needs_runs else "trials"
    return f"needs about {judgement.trials_needed:,} {noun} per system"


# Longest name in a chart, in characters; tables have the whole name.
LONGEST_LABEL = 80


def chart_labels(names: Iterable[str]) -> Mapping[str, str]:
    """Label each name for a chart; two names share a label only where they are the same."""
    cut = {name: short(name, LONGEST_LABEL) for name in names}
    count = Counter(cut.values())
    return {name: text if count[text] == 1 else name for name, text in cut.items()}
