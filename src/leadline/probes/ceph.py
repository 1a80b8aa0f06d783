"""Capture of the dumps for the inventory of a live Ceph cluster; nothing is changed in it."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from leadline import errors
from leadline.connect.ceph import CommandFailed
from leadline.connect.shell import CommandResult, Shell
from leadline.errors import LeadlineError
from leadline.inventory.ceph import dumps as names
from leadline.inventory.ceph.dumps import Asked, Dump
from leadline.inventory.redaction import redact_document


class Commands(Protocol):
    """The part of `leadline.connect.ceph.Connection` that the capture needs."""

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of one command; `refused` is None for an answer."""

    dump: Dump
    seconds: float
    size_bytes: int
    refused: LeadlineError | None = None


def capture(
    connection: Commands, observe: Callable[[Answer], None] | None = None
) -> dict[str, bytes]:
    """Return the dumps of a cluster by file name, without secrets; `observe` gets each result.

    An optional command may be refused; its dump is then missing. Raises LeadlineError:
    `ceph-failed` for a refused required command, `ceph-unreachable` without an answer of the
    monitors.
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
            captured[dump.name] = _read_dump(connection, dump)
        except LeadlineError as error:
            if dump.required or not _is_optional(error, dump):
                raise
            # A silent manager would delay every further command.
            silent = silent or error.kind is errors.CEPH_UNREACHABLE
            refused = error
        if observe is not None:
            size = len(captured.get(dump.name, b""))
            seconds = time.monotonic() - begin
            observe(Answer(dump=dump, seconds=seconds, size_bytes=size, refused=refused))

    for dump in names.DUMPS:
        if dump is not names.PGS or _count_pgs(captured) <= names.MOST_PGS:
            ask(dump)
    for daemon in _daemons(captured):
        ask(names.config_show(daemon))
    return captured


def _is_optional(error: LeadlineError, dump: Dump) -> bool:
    """Return whether a failure is a refusal or a silent manager: a cluster serves clients without
    managers."""
    unanswered = error.kind is errors.CEPH_UNREACHABLE and dump.asked is Asked.MGR
    return isinstance(error, CommandFailed) or unanswered


def _read_dump(connection: Commands, dump: Dump) -> bytes:
    prefix, arguments = dump.request
    command = connection.mgr if dump.asked is Asked.MGR else connection.mon
    answer = command(prefix, format="json", **arguments)
    if dump is names.CRYPT_KEYS:
        answer = _crypt_keys_only(answer)
    elif dump is names.MGR:
        answer = _without_module_options(answer)
    elif dump is names.PGS:
        answer = _acting_sets_only(answer)
    return redact_document(answer)


def _crypt_keys_only(answer: bytes) -> bytes:
    """Return only the names of dm-crypt keys: other names would disclose what a site stores."""
    listed = names.parse(names.CRYPT_KEYS.name, answer)
    return json.dumps([key.text for key in listed if key.text.startswith("dm-crypt/")]).encode()


def _count_pgs(captured: Mapping[str, bytes]) -> int:
    pools = names.load_required(captured, names.OSD_DUMP)["pools"]
    return sum(pool["pg_num"].count for pool in pools)


def _acting_sets_only(answer: bytes) -> bytes:
    """Return `pg dump pgs_brief` without states and up sets, which are as large again."""
    kept = [
        {key: node[key].value for key in ("pgid", "acting", "acting_primary")}
        for node in names.list_pgs(names.parse(names.PGS.name, answer))
    ]
    return json.dumps({"pg_stats": kept}, separators=(",", ":")).encode()


def _without_module_options(answer: bytes) -> bytes:
    """Return `mgr dump` without the descriptions of module options: 50 of its 52 KB, equal for all
    clusters of a release."""
    decoded = names.parse(names.MGR.name, answer).value
    if not isinstance(decoded, dict):
        return answer
    kept = {key: value for key, value in decoded.items() if key != "available_modules"}
    return json.dumps(kept).encode()


def _daemons(captured: dict[str, bytes]) -> Iterator[str]:
    """Yield one daemon of each kind for its running configuration: the first OSD that is up, the
    leading monitor, the active manager."""
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


# The deployment of Rook's toolbox, and the label `app` of its pods.
TOOLBOX = "rook-ceph-tools"
_CONNECT_S = 15
# `ceph` starts Python, then waits for the cluster.
_BOUND_S = 60.0
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Ceph commands through a shell with a configured `ceph`, such as Rook's toolbox."""

    shell: Shell

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        """Return the answer of `ceph PREFIX ARGUMENTS... --format json`. Raises LeadlineError:
        `ceph-failed` for a refusal, `ceph-unreachable` without an answer, `ceph-missing` without
        the program, and as Shell.run."""
        form = str(arguments.pop("format", "json"))
        words = [*prefix.split(), *map(str, arguments.values())]
        result = self._run((*words, "--format", form), data)
        if result.status == 0:
            return result.stdout
        if result.status in (126, 127):
            raise LeadlineError(
                errors.CEPH_MISSING,
                f"the program `ceph` cannot be run in {self.shell.name}",
                context=[result.error_line],
            )
        if "timed out" in result.error_line:
            raise LeadlineError(
                errors.CEPH_UNREACHABLE,
                f"the cluster does not answer `ceph {' '.join(words)}` in {self.shell.name}",
                context=[result.error_line],
            )
        # The exit status is the errno, where there is one.
        number = result.status if result.status in errno.errorcode else errno.EIO
        raise CommandFailed(number, " ".join(words), result.error_line)

    mgr = mon

    def _run(self, words: tuple[str, ...], given: bytes) -> CommandResult:
        """Run a command, repeated after a lost connection: these commands change nothing."""
        script = f'exec ceph --connect-timeout {_CONNECT_S} "$@"'
        for _ in range(_TRIES - 1):
            try:
                return self.shell.run(script, *words, given=given, bound_s=_BOUND_S)
            except LeadlineError as error:
                if error.kind is not errors.SHELL_LOST:
                    raise
        return self.shell.run(script, *words, given=given, bound_s=_BOUND_S)
