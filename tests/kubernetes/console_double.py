"""KubeVirt's aggregated API for consoles, as far as virtctl uses it: a TLS server behind an
APIService of the real API server, whose WebSockets lead to whatever stands for a serial console."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)

from tests.kubernetes.cluster import Cluster

GROUP, PROTOCOL = "subresources.kubevirt.io", "plain.kubevirt.io"
_NAMESPACE = "kubevirt"
_PATH = re.compile(rf"/apis/{GROUP}/v1/namespaces/([^/]+)/virtualmachineinstances/([^/]+)/console")
_NOISE = b"[   12.345678] virtio_blk virtio2: something of the kernel's own\r\n"


class SerialConsole(Protocol):
    """What a guest's serial port is on the host's side."""

    def read(self) -> bytes:
        """What was written since; empty where nothing was for a moment."""

    def write(self, piece: bytes) -> None: ...


@dataclass
class Manners:
    """How the server misbehaves. `noise_every`: a kernel's line stands behind so many bytes of a
    guest's; `status` is what a console's request is answered with instead of a WebSocket;
    `deaf`: what is written to a guest is lost."""

    noise_every: int = 0
    status: int = 0
    deaf: bool = False


@dataclass
class ConsoleServer:
    """`consoles` finds the console of a namespace and a name. `asked` holds the requests' paths;
    `joined` counts connections to a console."""

    consoles: Callable[[str, str], SerialConsole | None]
    folder: Path
    address: str
    manners: Manners = field(default_factory=Manners)
    asked: list[str] = field(default_factory=list)
    joined: int = 0

    def __post_init__(self) -> None:
        self._ends = threading.Event()
        self._held: dict[tuple[str, str], socket.socket] = {}
        self._lock = threading.Lock()
        key, certificate = self.folder / "console.key", self.folder / "console.crt"
        request = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=console -keyout"
        subprocess.run(
            [*request.split(), str(key), "-out", str(certificate)], check=True, capture_output=True
        )
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate, key)
        self._listener = socket.create_server(("0.0.0.0", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._ends.set()
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End all connections to consoles in the middle of what they do."""
        with self._lock:
            for held in self._held.values():
                with contextlib.suppress(OSError):
                    held.shutdown(socket.SHUT_RDWR)

    def register(self, cluster: Cluster) -> None:
        """Have the API server pass the group on to here."""
        for manifest in registration(self.address, self.port):
            cluster.apply(manifest)
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{GROUP}"

        def available() -> bool:
            conditions = cluster.request(path).get("status", {}).get("conditions", [])
            return any(
                condition["type"] == "Available" and condition["status"] == "True"
                for condition in conditions
            )

        cluster.until("the console API", available)

    def unregister(self, cluster: Cluster) -> None:
        cluster.request(f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{GROUP}", "DELETE")
        cluster.request(f"/api/v1/namespaces/{_NAMESPACE}", "DELETE")

    def _accept(self) -> None:
        while not self._ends.is_set():
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with (
            contextlib.suppress(OSError, ssl.SSLError),
            self._context.wrap_socket(plain, server_side=True) as connection,
        ):
            while self._request(connection):
                continue

    def _request(self, connection: ssl.SSLSocket) -> bool:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(65536)
            if not piece:
                return False
            head += piece
        path = head.split(b" ", 2)[1].decode().partition("?")[0]
        self.asked.append(path)
        match = _PATH.fullmatch(path)
        if match is None:
            _answer(connection, path)
            return True
        console = self.consoles(match[1], match[2])
        if self.manners.status or console is None:
            status = self.manners.status or 400
            connection.sendall(
                f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
            )
            return False
        self._join(connection, head, console, (match[1], match[2]))
        return False

    def _join(
        self, connection: ssl.SSLSocket, head: bytes, console: SerialConsole, key: tuple[str, str]
    ) -> None:
        """As virt-handler: who comes later takes the console from who has it."""
        protocol = WSConnection(ConnectionType.SERVER)
        protocol.receive_data(head)
        # Two threads use the connection, and Python's TLS is not for that: each call is short, and
        # under one lock.
        lock = threading.Lock()
        with self._lock:
            before = self._held.pop(key, None)
            self._held[key] = connection
            self.joined += 1
        if before is not None:
            with contextlib.suppress(OSError):
                before.shutdown(socket.SHUT_RDWR)
        ended = threading.Event()
        writer = threading.Thread(
            target=self._tell, args=(connection, protocol, console, lock, ended), daemon=True
        )
        connection.settimeout(0.01)
        try:
            for event in _events(connection, protocol, lock, ended):
                match event:
                    case Request():
                        good = PROTOCOL in event.subprotocols
                        with lock:
                            connection.sendall(protocol.send(_welcome(good)))
                        if not good:
                            return
                        writer.start()
                    case BytesMessage() | TextMessage():
                        if not self.manners.deaf:
                            console.write(
                                bytes(event.data, "utf-8")
                                if isinstance(event.data, str)
                                else bytes(event.data)
                            )
                    case Ping():
                        with lock:
                            connection.sendall(protocol.send(event.response()))
                    case CloseConnection():
                        return
        finally:
            ended.set()
            with self._lock:
                if self._held.get(key) is connection:
                    del self._held[key]

    def _tell(
        self,
        connection: ssl.SSLSocket,
        protocol: WSConnection,
        console: SerialConsole,
        lock: threading.Lock,
        ended: threading.Event,
    ) -> None:
        passed = 0
        while not ended.is_set():
            piece = console.read()
            if not piece:
                continue
            every = self.manners.noise_every
            if every and passed // every != (passed + len(piece)) // every:
                middle = len(piece) // 2
                piece = piece[:middle] + _NOISE + piece[middle:]
            passed += len(piece)
            with lock, contextlib.suppress(OSError, ssl.SSLError):
                connection.settimeout(10)
                connection.sendall(protocol.send(BytesMessage(data=piece)))
                connection.settimeout(0.01)


def _welcome(good: bool) -> AcceptConnection | RejectConnection:
    if good:
        return AcceptConnection(subprotocol=PROTOCOL)
    return RejectConnection(status_code=400)


def _events(
    connection: ssl.SSLSocket, protocol: WSConnection, lock: threading.Lock, ended: threading.Event
) -> Iterator[object]:
    while not ended.is_set():
        yield from protocol.events()
        try:
            with lock:
                piece = connection.recv(65536)
        except TimeoutError:
            continue
        if not piece:
            return
        protocol.receive_data(piece)


def _answer(connection: ssl.SSLSocket, path: str) -> None:
    """Discovery, which is also how the API server looks whether this server is there."""
    if path == f"/apis/{GROUP}/v1":
        body: dict[str, object] = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{GROUP}/v1",
            "resources": [
                {
                    "name": "virtualmachineinstances/console",
                    "singularName": "",
                    "namespaced": True,
                    "kind": "VirtualMachineInstance",
                    "verbs": ["get"],
                }
            ],
        }
    else:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
    status = "404 Not Found" if body["kind"] == "Status" else "200 OK"
    text = json.dumps(body).encode()
    connection.sendall(
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\n\r\n".encode()
        + text
    )


def registration(address: str, port: int) -> list[dict[str, object]]:
    """A namespace, a Service that is this machine's address, and the APIService."""
    metadata = {"name": "virt-api", "namespace": _NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"type": "ExternalName", "externalName": address, "ports": [{"port": port}]},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1.{GROUP}"},
            "spec": {
                "group": GROUP,
                "version": "v1",
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
                "insecureSkipTLSVerify": True,
                "service": {"name": "virt-api", "namespace": _NAMESPACE, "port": port},
            },
        },
    ]
