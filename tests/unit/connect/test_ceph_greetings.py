"""The greeting of a Ceph daemon, from sockets of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from leadline.connect.ceph import ask_greetings


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listening(sockets: ExitStack) -> tuple[socket.socket, tuple[str, int]]:
    server = sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
    host, port = server.getsockname()
    return server, (host, port)


def test_a_daemon_that_greets_one_that_is_gone_one_that_hangs_and_a_stranger(
    sockets: ExitStack,
) -> None:
    greeting, greets = listening(sockets)
    stranger, strange = listening(sockets)
    # The kernel accepts connections for a process that does not.
    _, hangs = listening(sockets)
    closed, gone = listening(sockets)
    closed.close()
    addresses = {"mds.a": greets, "mds.b": gone, "mgr.x": hangs, "mon.a": strange}

    def answer() -> None:
        for server, words in ((greeting, b"ceph v2\n\x10\0"), (stranger, b"SSH-2.0-OpenSSH")):
            accepted, _ = server.accept()
            sockets.enter_context(accepted).sendall(words)

    thread = threading.Thread(target=answer)
    thread.start()
    found = ask_greetings(addresses, 1.0)
    thread.join()
    assert found == {
        "mds.a": "",
        "mds.b": "Connection refused",
        "mgr.x": "no greeting within 1 s",
        "mon.a": "no greeting of Ceph",
    }


def test_an_address_that_cannot_be_reached() -> None:
    (reason,) = ask_greetings({"mon.a": ("255.255.255.255", 6789)}, 1.0).values()
    assert reason


def test_no_daemon_no_answer() -> None:
    assert ask_greetings({}, 1.0) == {}
