"""A real Kubernetes cluster of one node, as child processes: etcd, API server, controller manager,
scheduler, containerd, kubelet, and the provisioners of classes.py.

The processes live in PID, mount and network namespaces of their own and write below one folder.
The host has the cluster's end of a veth pair, cgroups and loop devices, which sweep.py removes,
also when the testing process is killed. Needs root, except with `whole=False`: etcd, API server
and controller manager only, without namespaces.
"""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.kubernetes import parts, sweep
from tests.kubernetes.keeper import Keeper, NestFault

NODE = parts.NODE
_NODE_USER = f"system:node:{NODE}"
# Go's garbage collector takes a large share of an API server's processor time; memory is there.
_ENVIRONMENT = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
_FRESH_S = 3.0
# Of a node, by the controller that says how long kubelets may keep Secrets and ConfigMaps.
_ANNOTATION = "node.alpha.kubernetes.io/ttl"
# Joins in second_node.py only.
SECOND_NODE_USER = f"system:node:{parts.SECOND_NODE}"
_GROUPS = {
    "admin": "system:masters",
    _NODE_USER: "system:nodes",
    SECOND_NODE_USER: "system:nodes",
}
# `runner` and `viewer` have no rights until a test binds the shipped manifests to them.
USERS = (
    "admin",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "runner",
    "viewer",
    "nobody",
)


class Refused(RuntimeError):
    """The API server answered with an error: its status code and what it says."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status, self.text = status, text


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


def _network(number: int, *, whole: bool, most_pods: int) -> parts.Network:
    if whole:
        # Up to 250 addresses, or a range that only one such cluster can have.
        many = most_pods > 250
        return parts.Network(
            host=f"10.199.{number}.1",
            node=f"10.199.{number}.2",
            pods="10.245.0.0/16" if many else f"10.244.{number}.0/24",
            most_pods=most_pods,
            bind="0.0.0.0",
            api_port=443,
            etcd_port=2379,
            etcd_peer_port=2380,
        )
    api, etcd, peer = _free_ports(3)
    return parts.Network(
        host="127.0.0.1",
        node="127.0.0.1",
        bind="127.0.0.1",
        pods="",
        api_port=api,
        etcd_port=etcd,
        etcd_peer_port=peer,
    )


def free_nest(
    folder: Path, numbers: Iterable[int], *, whole: bool, most_pods: int
) -> tuple[Keeper, parts.Network]:
    """The namespaces of the first free number, and its addresses."""
    for number in numbers:
        try:
            keeper = Keeper(folder, number, whole=whole)
        except FileExistsError:
            continue
        return keeper, _network(number, whole=whole, most_pods=most_pods)
    raise RuntimeError(f"a cluster runs already under each number of {numbers}")


def connect(keeper: Keeper, network: parts.Network) -> None:
    """Connect the namespaces of a node with this machine, and prepare them."""
    name, inside = keeper.interface, str(keeper.namespace_pid)
    for command in (
        f"ip link add {name} type veth peer name eth0 netns {inside}",
        f"ip addr add {network.host}/30 dev {name}",
        f"ip link set {name} up",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)
    keeper.run(["sh", "-c", parts.prepare_node(keeper.folder)])
    keeper.run(f"ip addr add {network.node}/30 dev eth0".split())
    keeper.run(["ip", "link", "set", "eth0", "up"])
    keeper.run(f"ip route add default via {network.host}".split())
    # Pods reach this machine at `network.host`, and it them.
    route = f"ip route add {network.pods} via {network.node} dev {name}"
    subprocess.run(route.split(), check=True, capture_output=True)
    parts.make_cgroups(keeper.cgroup)


class Cluster:
    """One cluster; `with Cluster(...) as cluster:` starts and stops it.

    programs: what build.sh printed. folder: absent or empty; removed at the end. number: 0 to 254,
    by default the first free one; clusters of different numbers run side by side.
    device_ownership: containerd's `device_ownership_from_security_context`.
    delete_delay_s: how long the `block` class takes to remove a released volume.
    most_pods: the pods that the node takes.
    """

    def __init__(
        self,
        programs: Path,
        folder: Path,
        *,
        whole: bool = True,
        number: int | None = None,
        device_ownership: bool = True,
        delete_delay_s: float = 0.0,
        most_pods: int = 110,
    ) -> None:
        self.programs, self.folder, self.whole = programs, folder.resolve(), whole
        self.device_ownership, self.delete_delay_s = device_ownership, delete_delay_s
        self.tokens = {
            user: secrets.token_hex(16) for user in (*USERS, _NODE_USER, SECOND_NODE_USER)
        }
        self._number, self._most_pods = number, most_pods
        self._keeper: Keeper | None = None
        self._commands: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._killed: set[str] = set()
        self._paths: dict[tuple[str, str], tuple[str, bool]] = {}
        self._connections: dict[int, tuple[http.client.HTTPSConnection, float]] = {}
        self.network = _network(number or 0, whole=whole, most_pods=most_pods)

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything; RuntimeError with the log's end where a part does not come up."""
        sweep.sweep_abandoned()
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise RuntimeError(f"{self.folder} is not empty")
        self._keeper = self._new_keeper()
        try:
            self._keeper.run(["true"])
            if self.whole:
                connect(self.keeper, self.network)
            self._control_plane()
            if self.whole:
                self._node()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process and remove every trace. Idempotent."""
        self._disconnect()
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def _disconnect(self) -> None:
        while self._connections:
            self._connections.popitem()[1][0].close()

    def _new_keeper(self) -> Keeper:
        numbers = range(1, 255) if self._number is None else [self._number]
        keeper, self.network = free_nest(
            self.folder, numbers, whole=self.whole, most_pods=self._most_pods
        )
        return keeper

    @property
    def keeper(self) -> Keeper:
        """The way to the processes; RuntimeError before start and after stop."""
        if self._keeper is None:
            raise RuntimeError("the cluster does not run")
        return self._keeper

    def _control_plane(self) -> None:
        at, network = self.folder, self.network
        parts.write_credentials(at, self.tokens, _GROUPS)
        self.run_part("etcd", parts.etcd(self.programs, at, network))
        self.run_part("kube-apiserver", parts.apiserver(self.programs, at, network))
        self.until("the API server", self._api_ready)
        user = "system:kube-controller-manager"
        self.run_part(
            "kube-controller-manager",
            parts.controller_manager(self.programs, at, self.kubeconfig(user)),
        )
        self.run_part("namespaces", parts.namespaces(self.programs, self.kubeconfig()))

    def _node(self) -> None:
        at = self.folder
        self.run_part(
            "kube-scheduler",
            parts.scheduler(self.programs, self.kubeconfig("system:kube-scheduler")),
        )
        self.run_part(
            "containerd", parts.containerd(at, self.network, device_ownership=self.device_ownership)
        )
        self.until("containerd", lambda: (at / "containerd.sock").exists())
        kubeconfig = self.kubeconfig(_NODE_USER)
        self.run_part(
            "kubelet",
            parts.kubelet(self.programs, at, self.network, kubeconfig, self.keeper.cgroup),
        )
        self.until("the node", self.node_ready)

    # --- processes -------------------------------------------------------------------------------

    def run_part(self, name: str, argv: list[str], env: dict[str, str] | None = None) -> None:
        """Start a process of the cluster under a name; its output goes to NAME.log."""
        env = {**_ENVIRONMENT, **(env or {})}
        self._commands[name] = (argv, env)
        self.keeper.start(name, argv, env)

    def pause(self, name: str) -> None:
        """Stop the process with SIGSTOP: it is there and says nothing."""
        self.keeper.signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.keeper.signal(name, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """SIGKILL, and wait for the end; `restart` brings it back."""
        self._killed.add(name)
        self._end(name, signal.SIGKILL)

    def restart(self, name: str, down_s: float = 0.0) -> None:
        """End the process, leave it down for `down_s`, start it with the same ports and files."""
        # An API server with watches open takes its time to end: not for long here.
        self._end(name, signal.SIGTERM, grace_s=3)
        self._disconnect()
        time.sleep(down_s)
        self.keeper.start(name, *self._commands[name])
        self._killed.discard(name)
        if name == "kube-apiserver":
            self.until("the API server", self._api_ready)

    def _end(self, name: str, number: int, grace_s: float = 0.0) -> None:
        deadline = time.monotonic() + grace_s
        self.keeper.signal(name, number)
        while self.keeper.ended(name) is None:
            if time.monotonic() > deadline:
                self.keeper.signal(name, signal.SIGKILL)
            time.sleep(0.05)

    def until(self, what: str, ready: Callable[[], bool], bound_s: float = 120) -> None:
        """Wait until `ready()`; RuntimeError where it takes too long or a part ended meanwhile."""
        deadline = time.monotonic() + bound_s
        while not ready():
            for name in self._commands.keys() - self._killed:
                status = self.keeper.ended(name)
                if status is not None:
                    raise RuntimeError(f"{name} ended with {status}:\n{self.log_end(name)}")
            if time.monotonic() > deadline:
                ends = "\n".join(f"--- {name}\n{self.log_end(name)}" for name in self._commands)
                raise RuntimeError(f"{what} is not there after {bound_s} s\n{ends}")
            time.sleep(0.1)

    def log_end(self, name: str, size: int = 2000) -> str:
        """The last bytes of what a part printed."""
        return self.keeper.log(name).read_bytes()[-size:].decode(errors="replace")

    def load_image(self, tar: Path) -> None:
        """Make the images of a docker archive known to the node; NestFault where it fails."""
        address = str(self.folder / "containerd.sock")
        self.keeper.run(["ctr", "--address", address, "-n", "k8s.io", "images", "import", str(tar)])

    # --- the API ---------------------------------------------------------------------------------

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://{self.network.node}:{self.network.api_port}"

    def kubeconfig(self, user: str = "admin") -> Path:
        """A kubeconfig with the user's token; the API server's certificate is checked."""
        path = self.folder / f"kubeconfig-{user.replace(':', '-')}"
        authority = base64.b64encode((self.folder / "certs" / "apiserver.crt").read_bytes())
        cluster = {"server": self.server, "certificate-authority-data": authority.decode()}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "lab",
                    "clusters": [{"name": "lab", "cluster": cluster}],
                    "users": [{"name": user, "user": {"token": self.tokens[user]}}],
                    "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
                }
            )
        )
        path.chmod(0o600)
        return path

    def request(
        self,
        path: str,
        method: str = "GET",
        body: Any = None,
        *,
        user: str = "admin",
        kind: str = "application/json",
        accept: str = "application/json",
    ) -> Any:
        """One call of the API; JSON answers parsed. Refused, or OSError where nothing answers."""
        text = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self.tokens[user]}",
            "Content-Type": kind,
            "Accept": accept,
        }
        try:
            status, answer = self._exchange(method, path, text, headers)
        except http.client.HTTPException as fault:
            raise ConnectionError(f"half an answer: {fault!r}") from fault
        if status >= 400:
            raise Refused(status, answer.decode(errors="replace"))
        return json.loads(answer) if answer.startswith(b"{") else answer.decode()

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        """Status and text of an answer. A connection is kept for each thread: most of the time of
        a short request goes into a new one, at both ends. One that was idle for longer may have
        ended, and is only for reading, which is done again."""
        thread = threading.get_ident()
        kept, used_s = self._connections.pop(thread, (None, 0.0))
        if kept is not None and method != "GET" and time.monotonic() - used_s > _FRESH_S:
            kept.close()
            kept = None
        connection = kept or self._connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as fault:
            connection.close()
            if kept is None or method != "GET" or isinstance(fault, TimeoutError):
                raise
            # The server has ended it meanwhile.
            return self._exchange(method, path, body, headers)
        self._connections[thread] = connection, time.monotonic()
        return status, text

    def _connection(self) -> http.client.HTTPSConnection:
        trusted = ssl.create_default_context(cafile=self.folder / "certs" / "apiserver.crt")
        network = self.network
        return http.client.HTTPSConnection(
            network.node, network.api_port, timeout=20, context=trusted
        )

    def apply(self, manifest: dict[str, Any], *, user: str = "admin") -> Any:
        """Server-side apply of one object."""
        metadata = manifest["metadata"]
        plural, namespaced = self._path(manifest["apiVersion"], manifest["kind"])
        version = manifest["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        where = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
        return self.request(
            f"{root}{where}/{plural}/{metadata['name']}?fieldManager=lab&force=true",
            "PATCH",
            manifest,
            user=user,
            kind="application/apply-patch+yaml",
        )

    def _path(self, version: str, kind: str) -> tuple[str, bool]:
        if (version, kind) not in self._paths:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for found in self.request(root)["resources"]:
                if "/" not in found["name"]:
                    self._paths[version, found["kind"]] = (found["name"], found["namespaced"])
        return self._paths[version, kind]

    def _api_ready(self) -> bool:
        try:
            return bool(self.request("/readyz") == "ok")
        except (OSError, Refused):
            return False

    def _node_object(self, name: str) -> dict[str, Any]:
        """The node as the API server has it; empty where it has none or does not answer."""
        try:
            found: dict[str, Any] = self.request(f"/api/v1/nodes/{name}")
        except (OSError, Refused):
            return {}
        return found

    def node_state(self, name: str = NODE) -> str:
        """The condition Ready as the API server has it: True, False, Unknown; empty: none."""
        return _ready(self._node_object(name))

    def node_ready(self, name: str = NODE) -> bool:
        """Whether the node is ready and controllers have done what they do then: removed its
        taints, so that it takes pods, and annotated it. On a busy machine that is seconds later."""
        node = self._node_object(name)
        done = _ready(node) == "True" and "taints" not in node["spec"]
        return done and _ANNOTATION in node["metadata"]["annotations"]


def _ready(node: dict[str, Any]) -> str:
    conditions = node.get("status", {}).get("conditions") or []
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")


__all__ = ["NODE", "Cluster", "NestFault", "Refused"]
