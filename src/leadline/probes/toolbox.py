"""Ceph's commands through Rook's toolbox, for `probes.ceph.capture`."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from leadline import errors
from leadline.ceph.connection import CommandFailed
from leadline.errors import LeadlineError
from leadline.kubernetes.connection import Connection
from leadline.kubernetes.pods.shell import PodShell
from leadline.shell import Said, Shell

# The name of its deployment, and its pods' label `app`.
TOOLBOX = "rook-ceph-tools"
_CONNECT_S = 15
# `ceph` starts Python, and then waits for the cluster.
_BOUND_S = 60.0
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A shell in which `ceph` is configured."""

    shell: Shell

    @classmethod
    def in_pod(
        cls, connection: Connection, namespace: str, *, pod: str, uid: str, container: str
    ) -> Toolbox:
        return cls(PodShell(connection, namespace, pod, uid, container))

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        """What `ceph PREFIX ARGUMENTS... --format json` answers.

        Raises LeadlineError: `ceph-failed` for a refusal, `ceph-unreachable` where the cluster does
        not answer, `ceph-missing` where there is no such program, and what `Shell.run` does."""
        form = str(arguments.pop("format", "json"))
        words = [*prefix.split(), *map(str, arguments.values())]
        said = self._run((*words, "--format", form), data)
        if said.status == 0:
            return said.stdout
        if said.status in (126, 127):
            raise LeadlineError(
                errors.CEPH_MISSING,
                f"the program `ceph` cannot be run in {self.shell.name}",
                context=[said.complaint],
            )
        if "timed out" in said.complaint:
            raise LeadlineError(
                errors.CEPH_UNREACHABLE,
                f"the cluster does not answer `ceph {' '.join(words)}` in {self.shell.name}",
                context=[said.complaint],
            )
        # The program ends with the errno, where it has one.
        number = said.status if said.status in errno.errorcode else errno.EIO
        raise CommandFailed(number, " ".join(words), said.complaint)

    mgr = mon

    def _run(self, words: tuple[str, ...], given: bytes) -> Said:
        """Asked again where the connection is lost: nothing is changed by what is asked here."""
        script = f'exec ceph --connect-timeout {_CONNECT_S} "$@"'
        for _ in range(_TRIES - 1):
            try:
                return self.shell.run(script, *words, given=given, bound_s=_BOUND_S)
            except LeadlineError as error:
                if error.kind is not errors.SHELL_LOST:
                    raise
        return self.shell.run(script, *words, given=given, bound_s=_BOUND_S)
