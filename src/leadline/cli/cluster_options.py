"""Which cluster a verb talks to: options that every verb with a cluster takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from leadline import errors
from leadline.ceph.access import CephAccess
from leadline.errors import LeadlineError

Command = TypeVar("Command", bound=Callable[..., Any])

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


def cluster_named(lab: str | None, ceph_conf: Path | None) -> bool:
    """Whether options, $CEPH_CONF or a file at the usual place name a cluster."""
    return bool(lab or ceph_conf or os.environ.get("CEPH_CONF") or DEFAULT_CONF.is_file())


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
        from leadline.lab.locate import lab_access

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
