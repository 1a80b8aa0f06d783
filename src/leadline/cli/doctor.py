"""`leadline doctor`: what this machine lacks for measuring, and how to get it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from leadline.cli.browser import find_browser
from leadline.cli.output import echo_line
from leadline.engines.fio.choice import OLDEST
from leadline.engines.fio.local import FioEngine
from leadline.engines.program.engine import ProgramEngine
from leadline.errors import Exit, LeadlineError
from leadline.formats.program.request import Program
from leadline.lab.daemons import require
from leadline.lab.network import find_obstacle
from leadline.lab.state import labs_folder
from leadline.plan.lab import LabDescription
from leadline.plan.workload import EngineChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`needed` is False for what only makes the answer better."""

    what: str
    found: str
    ok: bool
    needed: bool = False
    hint: str = ""


@click.command()
def command() -> Exit:
    """Say what this machine lacks for measuring, and how to get it.

    Ends with exit status 3 if something is missing that a run cannot do without.

    \b
    Example:
        leadline doctor
    """
    checks = [check() for check in CHECKS]
    width = max(len(check.what) for check in checks)
    for check in checks:
        mark = "ok     " if check.ok else "missing" if check.needed else "lacking"
        echo_line(f"{mark}  {check.what:<{width}}  {check.found}")
        if not check.ok:
            echo_line(f"{'':9}hint: {check.hint}")
    missing = any(not check.ok and check.needed for check in checks)
    return Exit.NOT_READY if missing else Exit.ANSWERED


def _fio() -> Check:
    oldest = ".".join(map(str, OLDEST))
    try:
        engine = FioEngine()
        version = engine.version
        engine.require_version()
    except LeadlineError as error:
        return Check(what="fio", found=error.fact, ok=False, needed=True, hint=error.hint or "")
    return Check(what="fio", found=f"{version} (needs {oldest})", ok=True, needed=True)


def _asynchronous() -> Check:
    try:
        have = FioEngine().engines & {EngineChoice.IO_URING.value, EngineChoice.LIBAIO.value}
        none = "neither io_uring nor libaio in this fio"
    except LeadlineError:
        have, none = frozenset(), "not known without fio"
    return Check(
        what="asynchronous I/O",
        found=", ".join(sorted(have)) or none,
        ok=bool(have),
        needed=True,
        hint="install the distribution's fio; a synchronous engine never reaches a queue depth",
    )


def _program(name: str, package: str, why: str) -> Callable[[], Check]:
    def check() -> Check:
        path = shutil.which(name)
        return Check(
            what=name,
            found=path or why,
            ok=path is not None,
            hint=f"install it: apt-get install {package}",
        )

    return check


def _benchmark(program: Program) -> Callable[[], Check]:
    """A program of a workload with `program:`, with all that its script needs."""

    def check() -> Check:
        engine = ProgramEngine(program)
        try:
            engine.find()
        except LeadlineError as error:
            found, hint = "workloads of this program cannot run here", error.hint or ""
            return Check(what=program.value, found=found, ok=False, hint=hint)
        return Check(what=program.value, found=engine.version, ok=True)

    return check


def _browser() -> Check:
    path = find_browser()
    return Check(
        what="Chromium",
        found=path or "reports cannot be written as PDF or PNG",
        ok=path is not None,
        hint="install it: apt-get install chromium",
    )


def _lab() -> Check:
    try:
        require(LabDescription(), labs_folder(None))
    except LeadlineError as error:
        return Check(what="lab", found=error.fact, ok=False, hint=error.hint or "")
    no_zones = find_obstacle()
    return Check(
        what="lab",
        found=f"without zones and delay: {no_zones}" if no_zones else "can be brought up here",
        ok=no_zones is None,
        hint="the zones of a lab are network namespaces, joined by a small C program",
    )


def _kubernetes() -> Check:
    """Only whether there is a configuration: nothing is contacted."""
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    looked = [Path(path) for path in named] or [Path("~/.kube/config").expanduser()]
    found = [str(path) for path in looked if path.is_file()]
    account = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    if not found and account.is_file():
        found = ["the account of this pod"]
    return Check(
        what="Kubernetes",
        found=", ".join(found) or "no kubeconfig: StorageClasses cannot be measured",
        ok=bool(found),
        hint="set $KUBECONFIG, or name one with --kubeconfig, as for kubectl",
    )


def _zfs() -> Check:
    """Nothing is started or loaded to find out."""
    from leadline.connect import programs

    if programs.find("zpool") is None:
        found = "not installed: zfs: and zfs+rbd: targets cannot be measured"
    elif lost := programs.suspended_pools():
        return Check(
            what="ZFS",
            found=f"of the kernel; SUSPENDED: {', '.join(lost)}, of which all I/O waits",
            ok=False,
            hint=programs.suspended_error(lost[0]).hint or "",
        )
    elif Path("/dev/zfs").exists():
        found = "of the kernel"
    elif programs.find("zfs-fuse") is not None:
        found = "zfs-fuse, which is started where it is needed"
    else:
        found = "its programs are here, and the kernel has no module of it loaded"
    usable = programs.find("zpool") is not None and "no module" not in found
    return Check(what="ZFS", found=found, ok=usable, hint=f"install it: {programs.GET_ZFS}")


def _root() -> Check:
    return Check(
        what="root",
        found="yes" if os.geteuid() == 0 else "no: block devices may be closed to this user",
        ok=os.geteuid() == 0,
        hint="directories need no root; for a device run as root or join its group",
    )


CHECKS: tuple[Callable[[], Check], ...] = (
    _fio,
    _asynchronous,
    _program("lsblk", "util-linux", "block devices cannot be listed or checked for use"),
    _program("findmnt", "mount", "filesystems of targets stay unknown"),
    _program("wipefs", "util-linux", "devices cannot be checked for signatures"),
    _program("setpriv", "util-linux", "fio would outlive a killed Leadline"),
    _program("ssh", "openssh-client", "load cannot be generated on other hosts"),
    _program("rbd", "ceph-common", "Ceph targets cannot be measured"),
    _program("rbd-fuse", "rbd-fuse", "file systems on RBD then need the kernel's client"),
    _program("qemu-nbd", "qemu-utils qemu-block-extra", "encrypted RBD images cannot be measured"),
    *(_benchmark(program) for program in Program),
    _browser,
    _zfs,
    _lab,
    _kubernetes,
    _root,
)
