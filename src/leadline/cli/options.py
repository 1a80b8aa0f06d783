"""Options that several verbs share, and what they name: clusters, runs, a comparison."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from leadline import __version__, errors
from leadline.archive.records import Session
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError

if TYPE_CHECKING:
    from leadline.analysis.comparison import By, Side
    from leadline.analysis.power import Power
    from leadline.archive.reader import Run
    from leadline.connect.kubernetes.client import KubernetesAccess
    from leadline.judge import Judge
    from leadline.plan.models import Plan


Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command these options and arguments, in this order."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


FILE = click.Path(path_type=Path)

KUBERNETES_OPTIONS = (
    click.option(
        "--kubeconfig",
        type=FILE,
        metavar="FILE",
        help="How the Kubernetes cluster is reached; else $KUBECONFIG, else ~/.kube/config.",
    ),
    click.option(
        "--context", metavar="NAME", help="The kubeconfig's context; else its current one."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """The values of `KUBERNETES_OPTIONS`."""

    kubeconfig: Path | None
    context: str | None

    def kubernetes_access(self) -> KubernetesAccess:
        """Return the way to the cluster. Nothing is contacted."""
        from leadline.connect.kubernetes.client import KubernetesAccess

        kubeconfig = self.kubeconfig.expanduser() if self.kubeconfig else None
        return KubernetesAccess(kubeconfig=kubeconfig, context=self.context)

    def given(self, *names: str) -> list[str]:
        """Return those of these options that are given, as they are written: `--ceph-conf`."""
        present = [name for name in names if getattr(self, name) not in (None, False)]
        return ["--id" if name == "ceph_id" else f"--{name.replace('_', '-')}" for name in present]


DEFAULT_CONF = Path("/etc/ceph/ceph.conf")
_HOW = "name a cluster with --lab NAME (`leadline lab up NAME` makes one) or --ceph-conf FILE"


CLUSTER_OPTIONS = (
    click.option("--lab", metavar="NAME", help="The lab's cluster, by its name."),
    click.option(
        "--ceph-conf",
        type=FILE,
        metavar="FILE",
        help=f"The cluster's configuration; else $CEPH_CONF, else {DEFAULT_CONF}.",
    ),
    click.option(
        "--keyring",
        type=FILE,
        metavar="FILE",
        help="The key of --id, unless the configuration names it.",
    ),
    click.option(
        "--id",
        "ceph_id",
        metavar="NAME",
        help="The Ceph user, without `client.`; else admin.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions(KubernetesOptions):
    """The values of `CLUSTER_OPTIONS` too, for verbs on clusters of both kinds."""

    lab: str | None
    ceph_conf: Path | None
    keyring: Path | None
    ceph_id: str | None

    def ceph_access(self) -> tuple[CephAccess, str]:
        """Return the way to the Ceph cluster, and what to call it. Nothing is contacted.

        Raises:
            LeadlineError: `usage`: a lab together with what contradicts it; `lab-not-found`;
                `cluster-unknown`: no cluster is named and none is at the usual place.
        """
        if self.lab is None:
            access = CephAccess(
                conf=_conf(self.ceph_conf), name=self.ceph_id or "admin", keyring=self.keyring
            )
            return access, str(access.conf)
        contradicting = self.given("ceph_conf", "keyring", "ceph_id")
        if contradicting:
            raise LeadlineError(
                errors.USAGE,
                f"--lab and {contradicting[0]} name two clusters",
                hint="a lab knows its own configuration: leave the other away",
            )
        from leadline.lab.state import lab_access

        return lab_access(self.lab), f"lab {self.lab}"


def _conf(given: Path | None) -> Path:
    if given is not None:
        return given
    # librados takes a list here too; the first is the one that a person means.
    named = os.environ.get("CEPH_CONF", "").split(",")[0].strip()
    if named:
        return Path(named)
    if DEFAULT_CONF.is_file():
        return DEFAULT_CONF
    raise LeadlineError(
        errors.CLUSTER_UNKNOWN,
        "no cluster is named, and there is none at the usual place",
        context=[f"looked for $CEPH_CONF and {DEFAULT_CONF}"],
        hint=_HOW,
    )


def _runs_folder(_context: click.Context, _option: click.Parameter, given: Path | None) -> Path:
    from leadline.archive.runs import runs_folder

    return runs_folder(given)


# The command gets the folder that applies.
runs_option = click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_runs_folder,
    help="Folder of the runs; else $LEADLINE_RUNS, else ./leadline-runs.",
)
RUNNER_OPTIONS = (
    click.option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Kubernetes: a namespace that is there; else each run makes its own.",
    ),
    click.option(
        "--runner-image",
        metavar="IMAGE",
        help="Kubernetes: the image that runs fio, by digest for repeatable results.",
    ),
    click.option(
        "--runner-cpu",
        metavar="N",
        help="Kubernetes: processors of each pod that runs fio (2, 500m); else the plan's, else 2.",
    ),
    click.option(
        "--runner-memory",
        metavar="SIZE",
        help="Kubernetes: memory of each pod that runs fio; else the plan's, else 1Gi.",
    ),
    click.option(
        "--vm-image",
        metavar="IMAGE",
        help="Kubernetes: the container disk that virtual machines boot from.",
    ),
)
run_argument = click.argument("run", metavar="[RUN]", default="@latest")


def format_option(*formats: str) -> Callable[[Command], Command]:
    """`--format`, with the first of `formats` as its default."""
    raw = "; csv-raw does not put ' before texts that spreadsheets take for formulas"
    return click.option(
        "--format",
        "output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help=f"How to print the answer{raw if 'csv-raw' in formats else ''}.",
    )


def drill_option(text: str) -> Callable[[Command], Command]:
    """`--allow-drill`, with its help."""
    return click.option("--allow-drill", multiple=True, metavar="SYSTEM", help=text)


ALLOW_ARCHIVED = click.option(
    "--allow-archived",
    multiple=True,
    metavar="SETTING|FILE",
    help="Consent to this setting of an archived plan, or to sending this token file of it; must "
    "name it exactly.",
)


def this_session() -> Session:
    """Return the record of a session that begins now."""
    return Session(
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        hostname=socket.gethostname(),
        leadline_version=__version__,
        python_version=platform.python_version(),
        # Without the program's path, which others cannot repeat.
        command=("leadline", *sys.argv[1:]),
    )


# What `run` and `check` take instead of, or over, a plan file.
plan_options = with_options(
    click.argument("plan", required=False, type=FILE, metavar="[PLAN.yaml]"),
    click.option(
        "--target",
        "targets",
        multiple=True,
        metavar="[NAME=]URL",
        help="Where I/O goes: dir:/path, device:/dev/x, rbd:POOL[/IMAGE], rados:POOL, "
        "cephfs:/mounted/path, zfs:POOL[/DATASET][?recordsize=16K...], "
        "zvol:POOL[/DATASET][?volblocksize=16K...], zfs+rbd:POOL, "
        "ext4+rbd:POOL or storageclass:NAME[?size=20Gi&count=3...]. May be given several "
        "times.",
    ),
    *CLUSTER_OPTIONS,
    *KUBERNETES_OPTIONS,
    *RUNNER_OPTIONS,
    click.option(
        "--profile",
        "profiles",
        multiple=True,
        help="A built-in set of workloads: quick, four-corners, kbench, scale-out, zfs-stream, "
        "database, sysbench-fileio, small-files, "
        "volume-lifecycle, odf-vm, odf-vm-app-server, odf-vm-data-pipeline, odf-vm-database.",
    ),
    click.option(
        "--job-file",
        "job_files",
        multiple=True,
        type=FILE,
        help="Your own fio job file as a workload, with its options.",
    ),
    click.option("--name", help="A word added to the id, by which the run is found."),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="KEY=VALUE",
        help="What sets this run apart from others, on all of its targets: cores=2. May be "
        "given several times.",
    ),
    click.option("--runtime", help="Time of each workload phase, over the plan's: 10s, 1m."),
    click.option("--ramp", help="Time before each phase that is not counted."),
    click.option("--size", help="Data of each job, over the plan's: 256M, 4G."),
    click.option("--repeats", type=int, help="Trials of each cell."),
    click.option(
        "--detect",
        metavar="PERCENT",
        help="Change of a rate that is to be found in 4 of 5 cases: `check` shows the trials that "
        "each cell needs, `run` takes as many, 30 at most.",
    ),
    click.option(
        "--like",
        metavar="RUN",
        help="An earlier run that shows the scatter for --detect; else the published one.",
    ),
    click.option(
        "--until-decided",
        is_flag=True,
        default=None,
        help="Look at the comparison of targets or clusters after each round, and end when every "
        "rate is decided, after 12 rounds at most; `stop:` of a plan says more.",
    ),
    click.option("--seed", type=int, help="Seed of the order and of random offsets."),
    click.option(
        "--prefill/--no-prefill",
        default=None,
        help="Write all data before measuring (the default).",
    ),
    click.option(
        "--drop-caches/--keep-caches",
        default=None,
        help="Drop the page cache of the data before each trial (the default).",
    ),
)


def power_of(plan: Plan, runs: Path) -> Power | None:
    """What the plan's `detect:` needs; None without it. Raises LeadlineError for its run."""
    if plan.detect is None:
        return None
    from leadline.analysis.power import plan_power

    like = None
    if plan.detect.like:
        from leadline.archive.runs import find_run
        from leadline.judge import Judge

        run = find_run(plan.detect.like, runs)
        like = run, Judge()(run)[0]
    return plan_power(plan, plan.detect.change, like=like)


# Kinds that --by names; any other word after it is a label's key.
_WITHIN = ("cluster", "target", "label")


def band_option(meaning: str) -> Callable[[Command], Command]:
    """`--band`, as a share."""
    return click.option(
        "--band",
        metavar="PERCENT",
        default="5%",
        show_default=True,
        callback=lambda _context, _option, given: parse_band(given),
        help=meaning,
    )


def parse_band(text: str) -> float:
    """`5%` or `0.05` as a share. Raises LeadlineError (`usage`)."""
    return _parse_share(text, "a band")


def _parse_share(text: str, what: str) -> float:
    number, percent, rest = text.strip().partition("%")
    try:
        band = float(number) / (100 if percent else 1)
    except ValueError:
        band = -1.0
    if rest.strip() or not 0 < band < 1:
        raise LeadlineError(
            errors.USAGE,
            f"{what} of {text!r} is not between 0 % and 100 %",
            hint="write it as 5% or 0.05",
        )
    return band


def parse_between_runs(text: str) -> float:
    """`5%`, `0.05` or `0` as a share. Raises LeadlineError (`usage`)."""
    return 0.0 if text.strip() in ("0", "0%") else _parse_share(text, "a deviation between runs")


def parse_date(text: str, option: str) -> datetime:
    """`2026-03-14` or `2026-03-14T02:00+01:00`, in UTC without an offset. Raises LeadlineError
    (`usage`)."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise LeadlineError(
            errors.USAGE,
            f"{option} {text!r} is no date",
            hint="write it as 2026-03-14 or 2026-03-14T02:00+01:00",
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


between_runs_option = click.option(
    "--between-runs",
    metavar="PERCENT",
    default="5%",
    show_default=True,
    callback=lambda _context, _option, given: parse_between_runs(given),
    help="Standard deviation of a system from one run to another, added where the two are of "
    "separate runs. Interleave both in one run to do without. `compare` estimates it instead from "
    "several runs of a system.",
)

compare_options = with_options(
    click.option(
        "--by",
        metavar="run|cluster|target|label|KEY",
        default="run",
        show_default=True,
        help="What the two are: runs (of each several: A,B,...), or clusters, targets (A or "
        "A,B,...) or labels (KEY=VALUE[,...]) of one run. KEY: the two values of that label, in "
        "the one run or the two that are named.",
    ),
    click.option(
        "--run",
        "within",
        metavar="RUN",
        default="@latest",
        show_default=True,
        help="The run that holds both, with --by cluster, target or label.",
    ),
    band_option("Changes within it count as the same; a measured noise floor widens it."),
    between_runs_option,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """The words that name a baseline and a candidate, and the folder of their runs."""

    baseline: str
    candidate: str | None
    by: str
    within: str
    runs: Path

    @property
    def kind(self) -> By:
        """What is compared. Raises LeadlineError (`usage`) if one of two names is missing."""
        from leadline.analysis.comparison import By

        if self.by not in (*_WITHIN, "run"):
            return By.LABEL
        if self.candidate is None and self.by in ("target", "label"):
            raise LeadlineError(
                errors.USAGE,
                f"--by {self.by} needs two {self.by}s",
                hint="`leadline compare A B --by target`, `leadline compare cores=1 cores=2 --by "
                "label`, or `leadline compare RUN --by cores`",
            )
        return By.CLUSTER if self.candidate is None else By(self.by)

    def find_runs(self) -> tuple[Run, ...]:
        """Return the runs that are named, the baseline's first; a run that is named twice once."""
        names = [self.baseline] if self.candidate is None else [self.baseline, self.candidate]
        if self.by == "run" and self.candidate is not None:
            found = [run for name in names for run in self._find_several(name)]
        else:
            within = self.by in _WITHIN and self.candidate is not None
            found = [self._find(name) for name in ([self.within] if within else names)]
        return tuple({run.path: run for run in found}.values())

    def find_sides(self, judge: Judge) -> tuple[Side, Side]:
        """Return what is compared. One run with two clusters is compared with itself."""
        from leadline.analysis.comparison import By, by_label, places, several_runs, within_run

        baseline, candidate, by = self.baseline, self.candidate, self.by
        if self.kind is By.LABEL and by != By.LABEL:
            return by_label(self._find(baseline), self._find(candidate or baseline), by, judge)
        if candidate is None:
            run = self._find(baseline)
            found = places(run)
            if len(found) != 2:
                raise LeadlineError(
                    errors.USAGE,
                    f"run {run.id} alone is no comparison: it has "
                    f"{'no' if not found else len(found)} cluster{'' if len(found) == 1 else 's'}",
                    context=[", ".join(found)] if found else [],
                    hint="name a second run, or two parts of this one: "
                    f"`leadline compare A B --by target --run {run.id}`",
                )
            return within_run(run, By.CLUSTER, *found, judge)
        if by == By.RUN:
            return several_runs(self._find_several(baseline), self._find_several(candidate), judge)
        if baseline == candidate:
            raise LeadlineError(
                errors.USAGE,
                f"both sides are the {by} {baseline!r}",
                hint=f"name two {by}s: `leadline compare A B --by {by}`",
            )
        return within_run(self._find(self.within), By(by), baseline, candidate, judge)

    def _find_several(self, names: str) -> list[Run]:
        """Find runs that are separated by commas; the name of one may hold a comma."""
        whole = "," not in names or Path(names).exists() or (self.runs / names).exists()
        return [self._find(name) for name in ([names] if whole else names.split(","))]

    def _find(self, name: str) -> Run:
        from leadline.archive.runs import find_run

        return find_run(name, self.runs)
