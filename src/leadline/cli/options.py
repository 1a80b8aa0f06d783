"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from leadline.cli.cluster_options import CLUSTER_OPTIONS
from leadline.cli.kubernetes_options import KUBERNETES_OPTIONS

Command = TypeVar("Command", bound=Callable[..., Any])

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
    return click.option(
        "--format",
        "output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the answer.",
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
