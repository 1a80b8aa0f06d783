"""A small HTTPS server that says what an API server would say, or what it never would."""

from __future__ import annotations

import copy
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from leadline.connect.kubernetes.client import Connection, KubernetesAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request that came."""

    method: str
    path: str
    query: str
    token: str
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is sent back; a status of 0 closes the connection without a word."""

    status: int = 200
    body: bytes = b"{}"
    kind: str = "application/json"


CLOSED = Answer(status=0)


def json_of(document: object, status: int = 200) -> Answer:
    return Answer(status=status, body=json.dumps(document).encode())


def refusal(code: int, message: str, reason: str = "") -> Answer:
    """A `Status`, in which an API server refuses."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return json_of(document, code)


def listing(*items: Mapping[str, object]) -> Answer:
    return json_of({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": list(items)})


@dataclass(kw_only=True)
class ApiDouble:
    """`say` answers a request; what came stands in `asked`."""

    url: str
    certificate: str
    say: Callable[[Asked], Answer]
    asked: list[Asked] = field(default_factory=list)

    def kubeconfig(self, folder: Path, **user: object) -> Path:
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(self.document(**user)))
        return path

    def document(self, name: str = "lab", **user: object) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [
                {
                    "name": name,
                    # As a file: of one that is written in, lightkube leaves a file open.
                    "cluster": {"server": self.url, "certificate-authority": self.certificate},
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "users": [{"name": name, "user": user or {"token": "secret"}}],
        }

    def connection(self, folder: Path, patience_s: float = 5.0, **user: object) -> Connection:
        access = KubernetesAccess(kubeconfig=self.kubeconfig(folder, **user))
        return Connection(access, timeout_s=30, patience_s=patience_s)


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate of 127.0.0.1 that it signed itself, and its key."""
    paths = (str(folder / "server.crt"), str(folder / "server.key"))
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=leadline-test -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True
    )
    return paths


@contextmanager
def serving(pair: tuple[str, str], say: Callable[[Asked], Answer]) -> Iterator[ApiDouble]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            parts = urlsplit(self.path)
            asked = Asked(
                method=self.command,
                path=parts.path,
                query=parts.query,
                token=self.headers.get("Authorization", "").removeprefix("Bearer "),
                body=json.loads(body) if body else None,
            )
            double.asked.append(asked)
            answer = double.say(asked)
            self.close_connection = True
            if answer.status:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.kind)
                self.send_header("Content-Length", str(len(answer.body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(answer.body)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _any  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda request, address: None  # type: ignore[method-assign]
    double = ApiDouble(
        url=f"https://127.0.0.1:{server.server_address[1]}", certificate=pair[0], say=say
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


Object = dict[str, Any]


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


@dataclass(kw_only=True)
class World:
    """Objects behind an ApiDouble, by plural, namespace and name: listed by label and field, got,
    made, patched and deleted. `deleting` is reported of each object that is to go, and may keep
    it."""

    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    deleting: Callable[[str, str], bool] = lambda plural, name: True
    denied: set[tuple[str, str]] = field(default_factory=set)

    def add(self, plural: str, name: str, namespace: str = "", **parts: Any) -> None:
        labels = parts.pop("labels", {})
        metadata = {"name": name, "labels": labels, **parts.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        self.objects[(plural, namespace, name)] = {"metadata": metadata, **parts}

    def there(self, plural: str) -> list[str]:
        return [name for kind, _, name in self.objects if kind == plural]

    def drop(self, plural: str, *names: str) -> None:
        for key in [key for key in self.objects if key[0] == plural and key[2] in names]:
            del self.objects[key]

    def __call__(self, asked: Asked) -> Answer:
        parts = asked.path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else ""
        plural, *named = rest[2:] if namespace else rest
        verbs = {"POST": "create", "DELETE": "delete", "PATCH": "patch"}
        verb = verbs.get(asked.method, "get" if named else "list")
        if (verb, plural) in self.denied:
            user = f'{plural} is forbidden: User "bob" cannot {verb} resource "{plural}"'
            return refusal(403, user)
        if verb == "list":
            return listing(*self._found(plural, namespace, asked.query))
        name = named[0] if named else str(asked.body["metadata"]["name"])
        found = self.objects.get((plural, namespace, name))
        if verb == "create":
            if found is not None:
                return refusal(409, f"{name} already exists", "AlreadyExists")
            self.objects[(plural, namespace, name)] = asked.body
            return json_of(asked.body, 201)
        if found is None:
            return refusal(404, f"{plural} {name!r} not found", "NotFound")
        if verb == "delete" and self.deleting(plural, name):
            del self.objects[(plural, namespace, name)]
        if verb == "patch":
            found = self.objects[(plural, namespace, name)] = merged(found, asked.body)
        return json_of(found)

    def _found(self, plural: str, namespace: str, query: str) -> list[Object]:
        wanted = parse_qs(query)
        labels = _pairs(wanted.get("labelSelector", [""])[0])
        fields = _pairs(wanted.get("fieldSelector", [""])[0])
        return [
            item
            for (kind, where, _), item in self.objects.items()
            if kind == plural
            and namespace in ("", where)
            and labels.items() <= item["metadata"]["labels"].items()
            and all(_field(item, path) == value for path, value in fields.items())
        ]


def _pairs(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.replace("==", "=").split(",") if part)
    return {key: value for key, _, value in pairs}


def _field(one: Object, path: str) -> Any:
    value: Any = one
    for key in path.split("."):
        value = value.get(key, {})
    return value
