"""Asks a live cluster for the dumps from which its inventory is built. Nothing is changed in it."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from leadline import errors
from leadline.connect.ceph import CommandFailed
from leadline.connect.kubernetes.client import Connection
from leadline.connect.kubernetes.pod_shell import PodShell
from leadline.connect.shell import CommandResult, Shell
from leadline.errors import LeadlineError
from leadline.inventory.ceph import dumps as names
from leadline.inventory.ceph.dumps import Asked, Dump
from leadline.inventory.redaction import redact_dump


class Commands(Protocol):
    """What is needed of a `leadline.connect.ceph.Connection`."""

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one command went. `refused` is None where it was answered."""

    dump: Dump
    seconds: float
    size_bytes: int
    refused: LeadlineError | None = None


def capture(connection: Commands, told: Callable[[Answer], None] | None = None) -> dict[str, bytes]:
    """The dumps of a cluster, by file name, without secrets; `told` hears how each command went.

    A command without which there still is an inventory may be refused; its dump is then missing.
    Raises LeadlineError: `ceph-failed` where one that is needed is refused, `ceph-unreachable`
    where the monitors give no answer.
    """
    captured: dict[str, bytes] = {}
    silent = False

    def ask(dump: Dump) -> None:
        nonlocal silent
        if silent and dump.asked is Asked.MGR:
            return
        begin = time.monotonic()
        refused: LeadlineError | None = None
        try:
            captured[dump.name] = _asked(connection, dump)
        except LeadlineError as error:
            if dump.required or not _bearable(error, dump):
                raise
            # A manager that is silent once would be waited for at every further question.
            silent = silent or error.kind is errors.CEPH_UNREACHABLE
            refused = error
        if told is not None:
            size = len(captured.get(dump.name, b""))
            seconds = time.monotonic() - begin
            told(Answer(dump=dump, seconds=seconds, size_bytes=size, refused=refused))

    for dump in names.DUMPS:
        ask(dump)
    for daemon in _daemons(captured):
        ask(names.config_show(daemon))
    return captured


def _bearable(error: LeadlineError, dump: Dump) -> bool:
    """A refusal, or a silent manager: without managers a cluster still serves its clients."""
    unanswered = error.kind is errors.CEPH_UNREACHABLE and dump.asked is Asked.MGR
    return isinstance(error, CommandFailed) or unanswered


def _asked(connection: Commands, dump: Dump) -> bytes:
    prefix, arguments = dump.request
    command = connection.mgr if dump.asked is Asked.MGR else connection.mon
    answer = command(prefix, format="json", **arguments)
    if dump is names.CRYPT_KEYS:
        answer = _crypt_keys_only(answer)
    elif dump is names.MGR:
        answer = _without_module_options(answer)
    return redact_dump(answer)


def _crypt_keys_only(answer: bytes) -> bytes:
    """The names of dm-crypt keys: those of others tell what else a site keeps there."""
    listed = names.parse(names.CRYPT_KEYS.name, answer)
    return json.dumps([key.text for key in listed if key.text.startswith("dm-crypt/")]).encode()


def _without_module_options(answer: bytes) -> bytes:
    """`mgr dump` without the description of every option of every module: 50 of its 52 KB, the
    same for all clusters of a release."""
    decoded = names.parse(names.MGR.name, answer).value
    if not isinstance(decoded, dict):
        return answer
    kept = {key: value for key, value in decoded.items() if key != "available_modules"}
    return json.dumps(kept).encode()


def _daemons(captured: dict[str, bytes]) -> Iterator[str]:
    """One daemon of each kind, to be asked for its running configuration: the first OSD that is
    up, the leading monitor, the active manager."""
    osd_dump = names.load(captured, names.OSD_DUMP)
    up = [node["osd"].count for node in osd_dump["osds"] if node["up"].flag] if osd_dump else []
    if up:
        yield f"osd.{min(up)}"
    quorum = names.load(captured, names.QUORUM)
    leader = quorum.text_or("quorum_leader_name", "") if quorum else ""
    if leader:
        yield f"mon.{leader}"
    mgr = names.load(captured, names.MGR)
    active = mgr.text_or("active_name", "") if mgr else ""
    if active:
        yield f"mgr.{active}"


# Ceph's commands through Rook's toolbox, for `probes.ceph.capture`.

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
                context=[said.error_line],
            )
        if "timed out" in said.error_line:
            raise LeadlineError(
                errors.CEPH_UNREACHABLE,
                f"the cluster does not answer `ceph {' '.join(words)}` in {self.shell.name}",
                context=[said.error_line],
            )
        # The program ends with the errno, where it has one.
        number = said.status if said.status in errno.errorcode else errno.EIO
        raise CommandFailed(number, " ".join(words), said.error_line)

    mgr = mon

    def _run(self, words: tuple[str, ...], given: bytes) -> CommandResult:
        """Asked again where the connection is lost: nothing is changed by what is asked here."""
        script = f'exec ceph --connect-timeout {_CONNECT_S} "$@"'
        for _ in range(_TRIES - 1):
            try:
                return self.shell.run(script, *words, given=given, bound_s=_BOUND_S)
            except LeadlineError as error:
                if error.kind is not errors.SHELL_LOST:
                    raise
        return self.shell.run(script, *words, given=given, bound_s=_BOUND_S)
