"""What targets on a Ceph cluster have in common: its conditions, its health, its tools."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from leadline import errors
from leadline.archive.records import CacheDrop, Created, RoundTrip
from leadline.ceph.access import INSTALL_CLIENT, CephAccess
from leadline.errors import LeadlineError
from leadline.plan.models import Target
from leadline.probes.layer_watches import watches_of
from leadline.runner.ports import Journal, Watch
from leadline.targets.cluster import OpenCluster
from leadline.targets.local import OneForAll

# An operation that a cluster cannot serve never comes back by itself.
_OPERATION_S = "20"
_TOOL_S = 60.0


class OnCluster(OneForAll):
    """A target of the plan on one of its clusters."""

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        self.name = target.name
        self.cluster = cluster
        self._rtt_s = target.parsed.inter_zone_rtt_s

    def volume(self) -> object:
        return ("ceph", self.cluster.name)

    def settle(self, written_at_s: float) -> None:
        self.cluster.settle(written_at_s)

    def prepare(self) -> tuple[RoundTrip, ...]:
        return self.cluster.put_in_force(self._rtt_s)

    def watch(self, folder: Path) -> Watch | None:
        return self.cluster.watch(folder, *watches_of(self.layers(), folder))


class InPool(OnCluster, ABC):
    """A target in a pool: what Leadline makes there is noted first, and removed behind the run."""

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        super().__init__(target, cluster)
        self._pool = target.parsed.pool
        self._created: Created | None = None
        self._journal: Journal | None = None

    def _note(self, path: str, token: str, journal: Journal) -> None:
        """Before it is made."""
        self.cluster.keep(journal)
        created = Created(target=self.name, cluster=self.cluster.name, path=path, token=token)
        journal.note_created(created)
        self._created, self._journal = created, journal

    @abstractmethod
    def _remove(self, created: Created) -> tuple[str, ...]:
        """Remove it; what could not be done as sentences."""

    def present(self) -> bool:
        self.cluster.require_pool(self._pool)
        return True

    def drop_caches(self) -> CacheDrop | None:
        return None  # the client has none, and those of the cluster are not ours to drop

    def filesystem(self) -> str:
        return ""

    def note_files(self) -> None:
        return

    def release(self) -> tuple[str, ...]:
        left = self.cluster.restore()
        if self._created is None or self.cluster.temporary:
            return left
        if self.cluster.silent:
            why = f"the cluster {self.cluster.name!r} did not answer before"
            return (*left, f"{self._created.path} was not removed: {why}")
        began = time.monotonic()
        problems = self._remove(self._created)
        # Each of many images would wait as long, and in vain.
        self.cluster.silent = bool(problems) and time.monotonic() - began > float(_OPERATION_S) / 2
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = None
        return (*left, *problems)


def ask(
    access: CephAccess, program: str, arguments: Sequence[str], what: str, bound_s: float = _TOOL_S
) -> str:
    """stdout of one of Ceph's programs. Raises LeadlineError: `ceph-missing`, `ceph-failed`."""
    patience = ("--rados-osd-op-timeout", _OPERATION_S, "--rados-mon-op-timeout", _OPERATION_S)
    return asked(access.command(program, *patience, *arguments), program, what, bound_s)


def asked(command: Sequence[str], program: str, what: str, bound_s: float) -> str:
    """stdout of a command. Raises LeadlineError: `ceph-missing`, `ceph-failed`."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=bound_s, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise LeadlineError(
            errors.CEPH_MISSING,
            f"there is no {error.filename!r} on this machine",
            hint=INSTALL_CLIENT,
        ) from error
    except subprocess.TimeoutExpired as error:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"{what}: {program} gives no answer within {bound_s:g} s",
            hint="look at the cluster's health: its I/O may not come back",
        ) from error
    if done.returncode == 127 and "nsenter" in done.stderr:
        raise LeadlineError(
            errors.CEPH_MISSING, f"there is no {program!r} on this machine", hint=INSTALL_CLIENT
        )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"{what}: {program} ended with status {done.returncode}",
            context=said[-3:],
        )
    return done.stdout
