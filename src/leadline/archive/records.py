"""The JSON records of an archive, a contract (docs/adr/0001), and how one is read."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import orjson
from pydantic import BaseModel, Field, ValidationError

from leadline import errors
from leadline.errors import LeadlineError
from leadline.files import read_content
from leadline.inventory.layer import Layer, Record
from leadline.inventory.redaction import Reason
from leadline.metrics import Metric, Op
from leadline.version import __version__

# The range of a histogram's counts in memory.
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


def _is_empty(value: object) -> bool:
    """Fields added to the archive's format 1 are left out where empty: earlier versions of Leadline
    refuse unknown fields."""
    return not value


class FileDigest(Record):
    """The SHA-256 of a sealed file in hexadecimal, and its size."""

    sha256: str
    size_bytes: int


class TrialStatus(StrEnum):
    """The end of a trial. `hung`: it exceeded its time limit and was killed."""

    COMPLETED = "completed"
    FAILED = "failed"
    HUNG = "hung"
    INTERRUPTED = "interrupted"


class RunStatus(StrEnum):
    """The status of a run. `running` without a process: it was killed. `stopped-by-guard`: a limit
    of its plan was crossed."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    GUARDED = "stopped-by-guard"
    COMPLETE = "complete"


class Problem(Record):
    """An error that occurred: its code, fact, context and hint."""

    code: str
    fact: str
    context: tuple[str, ...] = ()
    hint: str | None = None


class Processor(Record):
    """The load generator's machine during a trial, from /proc/stat and wait4(2).

    Shares are of all cores (1.0 = every core busy); `engine_cpu_s` is user + system time of the
    engine's processes in seconds. In a container `cores` is what its limit allows, and
    `throttled_share` the share of time in which the limit held it back; None where it is unknown.
    """

    cores: int = Field(ge=1)
    busy_share: float
    steal_share: float
    engine_cpu_s: float
    throttled_share: float | None = None


class CacheDrop(Record):
    """Page cache of the target's data before and after the drop, read back by mincore(2)."""

    method: str
    resident_before_bytes: int
    resident_after_bytes: int


class Extent(Record):
    """What was written before the trial, so that reads find data.

    `span_bytes` is what the trial may read, `written_bytes` what Leadline wrote there,
    `allocated_bytes` what the filesystem has allocated (None where unknown).
    """

    span_bytes: int
    written_bytes: int
    allocated_bytes: int | None
    filesystem: str = ""


class RoundTrip(Record):
    """Round-trip time between two places of a lab's network, measured by ping(8) right before a
    trial. `asked_s` is the delay that the plan asks for, without what the network takes itself.
    `p95_s` is None in archives of earlier versions."""

    source: str
    destination: str
    asked_s: float
    min_s: float
    median_s: float
    p95_s: float | None = None
    samples: int


class ClaimedVolume(Record):
    """A volume of a StorageClass. `volume` is the name of its PersistentVolume, `handle` its name
    for the CSI driver; both are empty where this user may not read them."""

    storage_class: str
    mode: str
    size_bytes: int
    volume: str = ""
    driver: str = ""
    handle: str = ""


class Runner(Record):
    """The pod or virtual machine that did the I/O on one volume in Kubernetes. `cores`
    is its CPU limit, `image_id` the digest of its image on the node, `user` the uid of a pod."""

    kind: Literal["pod", "vm"]
    name: str
    node: str
    image: str
    image_id: str = ""
    user: int | None = None
    cores: float
    memory_bytes: int
    io_threads: bool = False
    volume: ClaimedVolume


class Runners(Record):
    """The runners of one trial, in the order of its volumes. `other_runs` had pods at work in the
    cluster when the trial began."""

    schema_: Literal["leadline/runners/1"] = Field(default="leadline/runners/1", alias="schema")
    runners: tuple[Runner, ...]
    other_runs: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)


class ClientRecord(Record):
    """One load generator of a fleet. `name` marks its results and logs: c1, c2, ..., and n1, ...
    for neighbours. The clock of its machine is `clock_offset_s` ahead of this machine's clock,
    within `clock_uncertainty_s`; both are 0 on this machine."""

    name: str
    host: str
    fio_version: str
    cores: int = Field(ge=1)
    clock_offset_s: float
    clock_uncertainty_s: float


class Clients(Record):
    """The load generators of one trial: the measured ones, then the neighbours."""

    schema_: Literal["leadline/clients/1"] = Field(default="leadline/clients/1", alias="schema")
    clients: tuple[ClientRecord, ...]


class ImportSource(Record):
    """The place of an imported trial's figures: result number `part`, from 0, of `files`
    in the folder of imported files, read as `kind`. `names` are the original names of the files.

    `clients` are the clients of the files, in the same order, where the trial was merged from the
    files of concurrent clients; `absent` are clients without a file. `columns` maps known columns
    to those of a table that have another name.
    """

    kind: str
    files: tuple[str, ...] = Field(min_length=1)
    names: tuple[str, ...]
    part: int
    clients: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    columns: dict[str, str] = Field(default_factory=dict, exclude_if=_is_empty)


class TrialRecord(Record):
    """One execution of a cell. Times are ISO 8601 in UTC, durations seconds.

    Of an imported trial (`source`) the times are empty and the durations 0 where unknown.
    """

    schema_: Literal["leadline/trial/1"] = Field(default="leadline/trial/1", alias="schema")
    trial: str
    attempt: int
    target: str
    workload: str
    level: str
    block: int
    status: TrialStatus
    engine: str
    engine_version: str
    command: tuple[str, ...] = ()
    exit_status: int | None = None
    signals: tuple[str, ...] = ()
    started_at: str
    ended_at: str
    wall_s: float
    asked_s: float
    bound_s: float
    processor: Processor | None = None
    cache_drop: CacheDrop | None = None
    extent: Extent | None = None
    round_trips: tuple[RoundTrip, ...] = ()
    problem: Problem | None = None
    source: ImportSource | None = None
    files: dict[str, FileDigest] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.trial}-{self.attempt}"


class DerivedSpread(Record):
    """Scatter of the trials behind an imported mean: standard deviation (n - 1) in the metric's
    base unit, and their number."""

    deviation: float = Field(ge=0)
    number: int = Field(ge=2)


class DerivedOperation(Record):
    """Numbers derived from a trial's raw output; percentiles come from its own histogram. `spreads`
    are of figures that are means over trials."""

    job: str
    op: Op
    metrics: dict[Metric, float | None]
    spreads: dict[Metric, DerivedSpread] = Field(default_factory=dict, exclude_if=_is_empty)
    histogram_ns: tuple[Count, ...] = ()
    histogram_counts: tuple[Count, ...] = ()


class Derived(Record):
    """The derived numbers of a trial; `verify` compares them with the raw output."""

    schema_: Literal["leadline/derived/1"] = Field(default="leadline/derived/1", alias="schema")
    operations: tuple[DerivedOperation, ...]


class TargetStack(Record):
    """The layers of a target, from the top down."""

    target: str
    layers: tuple[Layer, ...]


class Stacks(Record):
    """The storage layers below the targets of one session."""

    schema_: Literal["leadline/stacks/1"] = Field(default="leadline/stacks/1", alias="schema")
    stacks: tuple[TargetStack, ...]


class Created(Record):
    """An object that the run creates on a target, recorded before it is created and when it is
    removed.

    `token` is also stored in the object and identifies it before a removal. `path` is a
    folder, or a URL (`rbd:POOL/IMAGE`, `rados:POOL/PREFIX`) in the plan's cluster `cluster`, or
    `lab:NAME`.
    """

    target: str
    cluster: str = ""
    path: str
    token: str
    removed: bool = False


class SettingStep(StrEnum):
    """A step of a setting's change. `apply` and `restore` are recorded before the system changes.
    `kept`: another user has changed it meanwhile, so it stays as it is."""

    APPLY = "apply"
    APPLIED = "applied"
    REFUSED = "refused"
    RESTORE = "restore"
    RESTORED = "restored"
    KEPT = "kept"


class SettingChange(Record):
    """A step of the change of one parameter of a system under test.

    `setting` is that of the plan, `cluster` its cluster of the plan (empty: none), `parameter` what
    is changed there. `before` is the value before the run (None: it had none), `value` the one to
    set, `read` what was read back, each as the system writes it.
    """

    at: str
    setting: str
    cluster: str
    parameter: str
    step: SettingStep
    before: str | None
    value: str | None = None
    read: str | None = None


class WrittenFiles(Record):
    """Files of an archive with the digests that they have from now on, recorded before they are
    written. `absent`: files that are not there, or not any more. `journals`: bytes that each
    journal has now; a journal only grows."""

    files: dict[str, FileDigest] = Field(default_factory=dict)
    absent: tuple[str, ...] = Field(default=(), exclude_if=_is_empty)
    journals: dict[str, int] = Field(default_factory=dict, exclude_if=_is_empty)


class Unredacted(Record):
    """A document whose stored form lacks a secret that is needed to undo a change or to resume the
    run: the archive's plan, or the line of a journal. `line` numbers begin at 1; 0: the file.

    `salt` is random, so that the digest of this record does not give the secret away.
    """

    file: str
    line: int = 0
    content: str
    salt: str


class Redaction(Record):
    """A secret that was removed: the archive's file, the place in it (a JSON path or a line) and
    the reason."""

    file: str
    where: str
    reason: Reason


class Scrub(Record):
    """A later removal of secrets from a stored archive."""

    at: str
    leadline_version: str


class Redactions(Record):
    """What was removed from the documents of an archive. `scrubs`: the removals after it was
    written."""

    schema_: Literal["leadline/redactions/1"] = Field(
        default="leadline/redactions/1", alias="schema"
    )
    redactions: tuple[Redaction, ...] = ()
    scrubs: tuple[Scrub, ...] = ()


class LookEnd(StrEnum):
    """Why a look ended its run. `decided`: no rate is open."""

    DECIDED = "decided"
    MAX_REPEATS = "max-repeats"
    MAX_TIME = "max-time"


class LookState(StrEnum):
    """What a look makes of a rate. `futile`: the trials of the plan will hardly decide it.
    `closed`: no number of trials decides it, because the audit refuses it, a limit was measured, or
    a number is missing."""

    DECIDED = "decided"
    OPEN = "open"
    FUTILE = "futile"
    CLOSED = "closed"


class LookedRate(Record):
    """A rate of a cell, of the baseline and the candidate of a look: their trials, the ratio of
    the candidate to the baseline with the interval of all looks, and the verdict."""

    target: str
    workload: str
    level: str
    op: Op | None
    metric: Metric
    trials: tuple[int, int]
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: str
    reasons: tuple[str, ...]
    state: LookState


class LookedPair(Record):
    """A comparison of a look."""

    baseline: str
    candidate: str
    rates: tuple[LookedRate, ...]


class Look(Record):
    """A look at the comparisons of a run that ends when they are decided, after `round` rounds.

    `trials` are the attempts that it saw, `used_s` what they took. `confidence` is the nominal
    level of each look's interval, for 95 % of all looks together. `open` are the numbers of the
    cells of the next round; `end` is set if there is none.
    """

    schema_: Literal["leadline/look/1"] = Field(default="leadline/look/1", alias="schema")
    at: str
    round: int = Field(ge=1)
    trials: tuple[str, ...]
    used_s: float
    confidence: float
    pairs: tuple[LookedPair, ...]
    open: tuple[int, ...] = ()
    end: LookEnd | None = None

    def count(self, state: LookState) -> int:
        """Count the rates in a state."""
        return sum(rate.state is state for pair in self.pairs for rate in pair.rates)


class Session(Record):
    """One execution of the run: the first, and one for each resume."""

    started_at: str
    ended_at: str | None = None
    hostname: str
    leadline_version: str
    python_version: str
    command: tuple[str, ...] = ()


class Manifest(Record):
    """The description of an archive. `files` has the digest of every file when it is sealed.

    `cluster_label` names the cluster of imported results.
    `seal` is the SHA-256 of the manifest's file with this value empty; empty before 0.2.0.
    `journaled`: the digests of an archive that is not sealed are in its journal of digests, and
    every line of its journals has a seal.
    """

    schema_: Literal["leadline/archive/1"] = Field(default="leadline/archive/1", alias="schema")
    run: str
    status: RunStatus
    created_at: str
    trials_planned: int
    cluster_label: str = ""
    sessions: tuple[Session, ...]
    problems: tuple[Problem, ...] = ()
    files: dict[str, FileDigest] = Field(default_factory=dict)
    journaled: bool = Field(default=False, exclude_if=_is_empty)
    seal: str = ""


# Reading them.

Model = TypeVar("Model", bound=BaseModel)


def damaged(fact: str, *context: object) -> LeadlineError:
    """Return the error of an archive that is not as it was written."""
    return LeadlineError(
        errors.ARCHIVE_DAMAGED,
        fact,
        context=map(str, context),
        hint="`leadline verify` names every damaged file",
    )


def unreadable(error: OSError, path: Path) -> LeadlineError:
    """Return the error of a file of an archive that cannot be read."""
    return damaged(f"the archive's {path.name} cannot be read: {error.strerror}", path)


def schema_of(model: type[BaseModel]) -> str:
    """Return the schema that a model of records writes, empty for one without."""
    field = model.model_fields.get("schema_")
    return field.default if field is not None else ""


def require_known_version(document: object, known: str, where: object) -> None:
    """Raise LeadlineError(`archive-newer`) if a document is of a later version of `known`.

    A schema is `leadline/NAME/VERSION`. Any other document is left to its reader.
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    name, _, version = known.rpartition("/")
    found = (
        re.fullmatch(rf"{re.escape(name)}/([1-9]\d{{0,8}})", schema, re.ASCII)
        if (name and isinstance(schema, str))
        else None
    )
    if found is not None and int(found[1]) > int(version):
        raise LeadlineError(
            errors.ARCHIVE_NEWER,
            f"{name} is of version {found[1]}, and this Leadline reads up to version {version}",
            context=[str(where), f"this is Leadline {__version__}"],
            hint="use the version of Leadline that wrote it, or a later one; nothing was changed",
        )


def read_record(path: Path, model: type[Model]) -> Model:
    """Read and validate a record. Raises LeadlineError(`archive-damaged`) with the place."""
    try:
        document = orjson.loads(read_content(path))
        require_known_version(document, schema_of(model), path)
        return model.model_validate(document)
    except FileNotFoundError as error:
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED, f"the archive lacks {path.name}", context=[str(path)]
        ) from error
    except OSError as error:
        raise unreadable(error, path) from error
    except orjson.JSONDecodeError as error:
        raise damaged(
            f"{path.name} is not JSON", f"{path}:{error.lineno}:{error.colno}: {error.msg}"
        ) from error
    except ValidationError as error:
        details = [
            f"{path}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED,
            f"{path.name} is not what this version of Leadline writes",
            context=details[:5],
            hint="`leadline verify` names every damaged file",
        ) from error
