"""Options that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from leadline import errors
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.text import visible

if TYPE_CHECKING:
    from leadline.analysis.comparison import By, Side
    from leadline.api import Judge
    from leadline.archive.reader import Run
    from leadline.connect.kubernetes.client import KubernetesAccess


def echo_line(text: str, *, err: bool = False) -> None:
    """Print one line that may quote untrusted text: without secrets, with control characters
    spelled out."""
    from leadline.inventory.redaction import redact_text

    click.echo(visible(redact_text(text)), err=err)


def echo_error(error: LeadlineError) -> None:
    click.echo(str(error), err=True)


def echo_rendered(text: str) -> None:
    """Print what a renderer returned: it has escaped its texts."""
    click.echo(text)


# Which Kubernetes cluster a verb talks to: options that every verb with one takes.

Command = TypeVar("Command", bound=Callable[..., Any])

KUBERNETES_OPTIONS = (
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="How the Kubernetes cluster is reached; else $KUBECONFIG, else ~/.kube/config.",
    ),
    click.option(
        "--context", metavar="NAME", help="The kubeconfig's context; else its current one."
    ),
)


def kubernetes_options(function: Command) -> Command:
    """`--kubeconfig` and `--context`, as the arguments `kubeconfig` and `context` of the command,
    for `kubernetes_access`."""
    for option in reversed(KUBERNETES_OPTIONS):
        function = option(function)
    return function


def kubernetes_access(*, kubeconfig: Path | None, context: str | None) -> KubernetesAccess:
    """The way to the cluster that the options name. Nothing is contacted."""
    from leadline.connect.kubernetes.client import KubernetesAccess

    return KubernetesAccess(
        kubeconfig=kubeconfig.expanduser() if kubeconfig else None, context=context
    )


# Which cluster a verb talks to: options that every verb with a cluster takes.

DEFAULT_CONF = Path("/etc/ceph/ceph.conf")
_HOW = "name a cluster with --lab NAME (`leadline lab up NAME` makes one) or --ceph-conf FILE"


def cluster_options(function: Command) -> Command:
    """`--lab`, `--ceph-conf`, `--keyring` and `--id`, as the arguments `lab`, `ceph_conf`,
    `keyring` and `ceph_id` of the command, for `cluster_access`."""
    for option in reversed(CLUSTER_OPTIONS):
        function = option(function)
    return function


CLUSTER_OPTIONS = (
    click.option("--lab", metavar="NAME", help="The lab's cluster, by its name."),
    click.option(
        "--ceph-conf",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"The cluster's configuration; else $CEPH_CONF, else {DEFAULT_CONF}.",
    ),
    click.option(
        "--keyring",
        type=click.Path(path_type=Path),
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


def cluster_access(
    *, lab: str | None, ceph_conf: Path | None, keyring: Path | None, ceph_id: str | None
) -> CephAccess:
    """The way to the cluster that the options of `cluster_options` name.

    Nothing is contacted. Raises LeadlineError: `usage` for a lab together with what contradicts
    it, `lab-not-found`, `cluster-unknown` where no cluster is named and none is at the usual place.
    """
    if lab is not None:
        given = {"--ceph-conf": ceph_conf, "--keyring": keyring, "--id": ceph_id}
        contradicting = [name for name, value in given.items() if value is not None]
        if contradicting:
            raise LeadlineError(
                errors.USAGE,
                f"--lab and {contradicting[0]} name two clusters",
                hint="a lab knows its own configuration: leave the other away",
            )
        from leadline.lab.state import lab_access

        return lab_access(lab)
    return CephAccess(conf=_conf(ceph_conf), name=ceph_id or "admin", keyring=keyring)


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


runs_option = click.option(
    "--runs",
    "runs",
    type=click.Path(path_type=Path, file_okay=False),
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


def plan_options(function: Command) -> Command:
    """What `run` and `check` take instead of, or over, a plan file."""
    options = (
        click.argument(
            "plan", required=False, type=click.Path(path_type=Path), metavar="[PLAN.yaml]"
        ),
        click.option(
            "--target",
            "targets",
            multiple=True,
            metavar="[NAME=]URL",
            help="Where I/O goes: dir:/path, device:/dev/x, rbd:POOL[/IMAGE], rados:POOL, "
            "cephfs:/mounted/path, zfs:POOL[/DATASET][?recordsize=16K...], zfs+rbd:POOL, "
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
            "odf-vm, odf-vm-app-server, odf-vm-data-pipeline, odf-vm-database.",
        ),
        click.option(
            "--job-file",
            "job_files",
            multiple=True,
            type=click.Path(path_type=Path),
            help="Your own fio job file as a workload, used byte for byte.",
        ),
        click.option("--name", help="A word added to the run's id."),
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
    for option in reversed(options):
        function = option(function)
    return function


# What `compare` and `report` take to say who stands against whom.

# What is named by name; any other word after --by is a label's key.
_WITHIN = ("cluster", "target", "label")


def compare_options(function: Command) -> Command:
    """`--by`, `--run` and `--band`."""
    options = (
        click.option(
            "--by",
            metavar="run|cluster|target|label|KEY",
            default="run",
            show_default=True,
            help="What the two are: runs, or clusters, targets (A or A,B,...) or labels "
            "(KEY=VALUE[,...]) of one run. KEY: the two values of that label, in the one run or "
            "the two that are named.",
        ),
        click.option(
            "--run",
            "within",
            metavar="RUN",
            default="@latest",
            show_default=True,
            help="The run that holds both, with --by cluster, target or label.",
        ),
        click.option(
            "--band",
            metavar="PERCENT",
            default="5%",
            show_default=True,
            help="Changes within it count as the same; a measured noise floor widens it.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def parse_band(text: str) -> float:
    """`5%` or `0.05` as a share. Raises LeadlineError (`usage`)."""
    number, percent, rest = text.strip().partition("%")
    try:
        band = float(number) / (100 if percent else 1)
    except ValueError:
        band = -1.0
    if rest.strip() or not 0 < band < 1:
        raise LeadlineError(
            errors.USAGE,
            f"a band of {text!r} is not between 0 % and 100 %",
            hint="write it as 5% or 0.05",
        )
    return band


def of_kind(by: str, candidate: str | None) -> By:
    """What the two are, from the word after --by. Raises LeadlineError (`usage`) for one of two
    names that are needed."""
    from leadline.analysis.comparison import By

    if by not in (*_WITHIN, "run"):
        return By.LABEL
    if candidate is None and by in ("target", "label"):
        raise LeadlineError(
            errors.USAGE,
            f"--by {by} needs two {by}s",
            hint="`leadline compare A B --by target`, `leadline compare cores=1 cores=2 --by "
            "label`, or `leadline compare RUN --by cores`",
        )
    return By.CLUSTER if candidate is None else By(by)


def runs_named(
    baseline: str, candidate: str | None, by: str, within: str, runs: Path | None
) -> tuple[Run, ...]:
    """The runs that the words are about, the baseline's first; one where all are about the same."""
    from leadline.archive.runs import find_run, runs_folder

    named = [baseline] if candidate is None else [baseline, candidate]
    names = [within] if by in _WITHIN and candidate is not None else named
    found = [find_run(name, runs_folder(runs)) for name in names]
    return tuple({run.path: run for run in found}.values())


def find_sides(
    baseline: str,
    candidate: str | None,
    by: str,
    within: str,
    runs: Path | None,
    judge: Judge,
) -> tuple[Side, Side]:
    """The two that the words mean. One run with two clusters stands for both of them."""
    from leadline.analysis.comparison import By, by_label, places, two_runs, within_run
    from leadline.archive.runs import find_run, runs_folder

    folder = runs_folder(runs)
    if of_kind(by, candidate) is By.LABEL and by != By.LABEL:
        return by_label(
            find_run(baseline, folder), find_run(candidate or baseline, folder), by, judge
        )
    if candidate is None:
        run = find_run(baseline, folder)
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
        return two_runs(find_run(baseline, folder), find_run(candidate, folder), judge)
    if baseline == candidate:
        raise LeadlineError(
            errors.USAGE,
            f"both sides are the {by} {baseline!r}",
            hint=f"name two {by}s: `leadline compare A B --by {by}`",
        )
    return within_run(find_run(within, folder), By(by), baseline, candidate, judge)
