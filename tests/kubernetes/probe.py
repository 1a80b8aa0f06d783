"""What of a cluster this machine can run: `whole`, or etcd, API server and CRDs only."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes import keeper, parts, sweep

CHOICE = "LEADLINE_TEST_KUBERNETES"
_PROGRAMS = (
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "unshare",
    "ip",
    "mount",
    "losetup",
    "mkfs.ext4",
    "openssl",
    "cc",
    "fio",
)


class Mode(enum.Enum):
    """How much of a cluster the tests get."""

    WHOLE = "whole"
    API_SERVER_ONLY = "api-server-only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`mode`, whether it was asked for, and what speaks against a whole cluster here."""

    mode: Mode
    chosen: bool
    lacks: tuple[str, ...]

    @property
    def summary(self) -> str:
        """One line a fact."""
        if self.mode is Mode.WHOLE:
            return "mode whole: a real cluster with a node ran here"
        why = f"asked for by {CHOICE}" if self.chosen else "this machine cannot run a whole cluster"
        return "\n".join(
            [
                f"mode api-server-only ({why}): NO POD RAN",
                *(f"lacking: {lack}" for lack in self.lacks),
            ]
        )


def lacks() -> list[str]:
    """What this machine lacks for a whole cluster, each with what to do where that is known."""
    found = []
    if os.geteuid() != 0:
        return ["root: namespaces, mounts and cgroups need it"]
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        found.append(f"programs {', '.join(missing)}: install containerd runc iproute2 gcc fio")
    if not (Path(parts.CNI_PLUGINS) / "bridge").exists():
        found.append(f"{parts.CNI_PLUGINS}/bridge: install containernetworking-plugins")
    found += _kernel_lacks() if not missing else []
    return found


def _kernel_lacks() -> list[str]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("lower", "upper", "work", "merged"):
            (Path(folder) / name).mkdir()
        options = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
        for what, command in (
            ("namespaces", "true"),
            ("overlayfs", f"mount -t overlay overlay -o {options} {folder}/merged"),
            (
                "a veth pair and a bridge",
                "ip link add name trial0 type veth && ip link add name trial1 type bridge",
            ),
        ):
            told = subprocess.run(
                [*keeper.NAMESPACES, "sh", "-c", command],
                capture_output=True,
                text=True,
                check=False,
            )
            if told.returncode:
                found.append(f"{what}: {told.stderr.strip()}")
    if not list(Path("/dev").glob("loop-control")):
        found.append("/dev/loop-control: no loop devices")
    # Workers of pytest-xdist probe at the same time.
    probe = f"leadline-lab-probe-{os.getpid()}"
    try:
        parts.make_cgroups(probe)
    except OSError as fault:
        found.append(f"cgroups that can be made: {fault}")
    if not list(sweep.cgroups(probe)):
        found.append(f"cgroups below {sweep.CGROUPS}")
    for cgroup in sweep.cgroups(probe):
        cgroup.rmdir()
    return found


def verdict() -> Verdict:
    """Try what a whole cluster needs, unless the environment asks for less."""
    missing = tuple(lacks())
    chosen = os.environ.get(CHOICE)
    if chosen not in (None, *(mode.value for mode in Mode)):
        raise ValueError(f"{CHOICE}={chosen}: one of {[mode.value for mode in Mode]}")
    if chosen == Mode.API_SERVER_ONLY.value:
        return Verdict(mode=Mode.API_SERVER_ONLY, chosen=True, lacks=missing)
    mode = Mode.API_SERVER_ONLY if missing else Mode.WHOLE
    return Verdict(mode=mode, chosen=False, lacks=missing)


if __name__ == "__main__":
    print(verdict().summary)  # noqa: T201
