"""Asks a live cluster for the dumps from which its inventory is built. Nothing is changed in it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from leadline import errors
from leadline.ceph.connection import CommandFailed
from leadline.errors import LeadlineError
from leadline.inventory import ceph_dumps as names
from leadline.inventory.ceph_dumps import Asked, Dump
from leadline.inventory.redaction import redact_dump


class Commands(Protocol):
    """What is needed of a `leadline.ceph.connection.Connection`."""

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
