"""The command line against the cluster, as users call it, and what of it stays in the cluster."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forked import Forked
from tests.kubernetes import classes, images, objects
from tests.kubernetes.cluster import Cluster, Refused

MIB = 1 << 20
BOUND_S = 240.0
Manifest = dict[str, Any]
# One object: group and version, kind, namespace, name.
Key = tuple[str, str, str, str]

# What comes, goes and changes without anybody's run.
_BY_ITSELF = {
    "events": "say what happened, and go by themselves after an hour",
    "leases": "are renewed by kubelet, scheduler and controllers every few seconds",
    "componentstatuses": "are asked for, not kept",
}
# All groups with their versions, best first, and kinds in one answer.
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# Kinds whose objects are large: what was asked of them has the number `generation`.
_LARGE = {"customresourcedefinitions"}
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Taints that follow from the conditions of a node, which are its status.
_CONDITIONS = "node.kubernetes.io/"
# What was seen last of each cluster.
_seen: weakref.WeakKeyDictionary[Cluster, dict[Key, str]] = weakref.WeakKeyDictionary()
# local-path-provisioner removes a folder by a pod of its own, which it removes afterwards.
_HELPERS = ("local-path-storage", "helper-pod-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a call ended. `wall_s`: how long it took."""

    status: int
    out: str
    err: str
    wall_s: float

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def failed(self, code: str, status: int) -> Ended:
        """This one, which ended with that error; AssertionError with all it said otherwise."""
        assert f"error[{code}]: " in self.err, f"status {self.status}\n{self.err}\n{self.out}"
        assert self.status == status, self.err
        assert "Traceback" not in self.err
        return self

    def answered(self) -> Ended:
        """This one, whose trials all have their numbers, whatever the audit says of them."""
        assert self.status in (0, 1), f"status {self.status}\n{self.err}\n{self.out}"
        assert "error[" not in self.err, self.err
        return self

    def went_well(self) -> Ended:
        assert self.status == 0, f"status {self.status}\n{self.err}\n{self.out}"
        return self


class Running:
    """A call that is going on."""

    def __init__(self, child: subprocess.Popen[str] | Forked) -> None:
        self.child = child
        self._began = time.monotonic()
        self._err: list[str] = []
        self._out: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=item, daemon=True)
            for item in ((child.stderr, self._err), (child.stdout, self._out))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Any, lines: list[str]) -> None:
        with stream:
            # By characters: the line of a trial begins when the trial does, and ends with it.
            lines.extend(iter(lambda: stream.read(1), ""))

    @property
    def err(self) -> str:
        return "".join(self._err)

    def until(self, what: str, there: Callable[[], object], bound_s: float = 120) -> None:
        """Wait for something to be so, while the call goes on."""
        end = time.monotonic() + bound_s
        while not there():
            assert self.child.poll() is None, f"it ended before {what}:\n{self.err}"
            assert time.monotonic() < end, f"no {what} within {bound_s:g} s:\n{self.err}"
            time.sleep(0.1)

    def says(self, text: str) -> None:
        self.until(repr(text), lambda: text in self.err)

    def signal(self, number: int) -> None:
        self.child.send_signal(number)

    def ended(self, bound_s: float = BOUND_S) -> Ended:
        """Wait for the end; one that does not come is killed, and reported."""
        try:
            self.child.wait(bound_s)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise AssertionError(f"it did not end within {bound_s:g} s:\n{self.err}") from None
        finally:
            for reader in self._readers:
                reader.join(10)
            for stream in (self.child.stdout, self.child.stderr):
                if stream is not None:
                    stream.close()
        status = self.child.returncode
        assert status is not None
        return Ended(
            status=status,
            out="".join(self._out),
            err=self.err,
            wall_s=time.monotonic() - self._began,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadline:
    """The command line of one user of a cluster, with runs in a folder of its own. `rests`: started
    as users do, and runs rest after a prefill as long as theirs."""

    cluster: Cluster
    folder: Path
    user: str = "admin"
    rests: bool = False

    def start(self, *words: object) -> Running:
        environment = {
            key: value for key, value in os.environ.items() if "proxy" not in key.lower()
        }
        environment |= {
            "KUBECONFIG": str(self.cluster.kubeconfig(self.user)),
            "LEADLINE_RUNS": str(self.runs),
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }
        given = [str(word) for word in words]
        if not self.rests:
            return Running(Forked(given, environment, self.folder))
        return Running(
            subprocess.Popen(
                [sys.executable, "-m", "leadline", *given],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # Signals of the tests' own terminal are not for it.
                start_new_session=True,
            )
        )

    def __call__(self, *words: object, bound_s: float = BOUND_S) -> Ended:
        return self.start(*words).ended(bound_s)

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def run(self) -> Path:
        """The only run that there is."""
        (found,) = self.runs.iterdir()
        return found

    def plan(
        self,
        *targets: str,
        cluster: Mapping[str, Any] | None = None,
        workload: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Path:
        """A plan of one short workload in small pods on these targets, `NAME=URL` each."""
        small = {
            "image": images.RUNNER,
            "cpu": "300m",
            "memory": "128Mi",
            "ready": "90s",
        }
        one = {"name": "read", "pattern": "randread", "block_size": "4k", "iodepth": 4}
        named = [target.partition("=")[::2] for target in targets]
        document = {
            "leadline": 1,
            "defaults": {"size": "64M", "runtime": "2s", "ramp": "0s"},
            "repeats": 1,
            "clusters": {"lab": {"kubernetes": small | dict(cluster or {})}},
            "targets": [{"name": name, "target": url, "clusters": "lab"} for name, url in named],
            "workloads": [one | dict(workload or {})],
        }
        path = self.folder / "plan.yaml"
        path.write_text(json.dumps(document | more))
        return path

    def trials(self) -> list[dict[str, Any]]:
        """What the archive says of each trial, in order."""
        found = sorted((self.run / "trials").glob("*/trial.json"))
        return [json.loads(path.read_text()) for path in found]


def everything(cluster: Cluster) -> dict[Key, str]:
    """Every object of every kind that the API server can list, with what was asked of it: all but
    its status, and the server's own book-keeping of its changes."""
    found: dict[Key, str] = {}
    for version, kind, plural in _kinds(cluster):
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        large = plural in _LARGE
        accept = _METADATA if large else "application/json"
        for item in _asked(cluster, f"{root}/{plural}", accept)["items"] or ():  # null: none
            place = item["metadata"]
            where, name = place.get("namespace", ""), place["name"]
            if where == _HELPERS[0] and name.startswith(_HELPERS[1]):
                continue
            item.pop("status", None)
            for key in ("resourceVersion", "managedFields", *([] if large else ["generation"])):
                place.pop(key, None)
            if plural == "nodes":
                taints = item["spec"].pop("taints", ())
                item["spec"]["taints"] = [
                    taint for taint in taints if not taint["key"].startswith(_CONDITIONS)
                ]
            found[version, kind, where, name] = json.dumps(item, sort_keys=True)
    _seen[cluster] = found
    return found


def settled(cluster: Cluster) -> dict[Key, str]:
    """The same, when nothing is on its way any more: of a cluster that has just come up, or of
    what another test has just removed. It is as it was seen before, be it at the end of another
    test."""
    end = time.monotonic() + 60
    while True:
        last, going = _seen.get(cluster), _going(cluster)
        found = everything(cluster)
        if found == last and not going:
            return found
        assert time.monotonic() < end, going or changes(last or {}, found)
        time.sleep(0.3)


def _going(cluster: Cluster) -> list[str]:
    """Namespaces that are being deleted, which takes seconds in which nothing else changes."""
    items = _asked(cluster, "/api/v1/namespaces")["items"]
    return [item["metadata"]["name"] for item in items if "deletionTimestamp" in item["metadata"]]


def _asked(cluster: Cluster, path: str, accept: str = "application/json") -> Any:
    """Kinds that were defined just now are listed only when the server has read them."""
    end = time.monotonic() + 60
    while True:
        try:
            return cluster.request(path, accept=accept)
        except Refused as refusal:
            if refusal.status != 429 or time.monotonic() > end:
                raise
        time.sleep(0.5)


def _kinds(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Group and version, kind and plural of all that can be listed, each kind once: an object is
    listed in every version of its group."""
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    for root in ("/api", "/apis"):
        for group in cluster.request(root, accept=_DISCOVERY)["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                at = f"{name}/{version['version']}" if name else version["version"]
                for kind in version.get("resources", ()):
                    plural = kind["resource"]
                    # A kind that is only served with its subresources has no verbs.
                    if "list" in (kind.get("verbs") or ()) and plural not in _BY_ITSELF:
                        found.setdefault((name, plural), (at, kind["responseKind"]["kind"], plural))
    return list(found.values())


def changes(before: Mapping[Key, str], after: Mapping[Key, str]) -> list[str]:
    """What is not as it was, as lines."""
    lines = [f"left: {key}" for key in sorted(after.keys() - before.keys())]
    lines += [f"removed: {key}" for key in sorted(before.keys() - after.keys())]
    return lines + [
        f"changed: {key}: {before[key]} -> {after[key]}"
        for key in sorted(before.keys() & after.keys())
        if before[key] != after[key]
    ]


@contextlib.contextmanager
def nothing_left(cluster: Cluster) -> Iterator[None]:
    """What is done inside leaves every object of the cluster as it was."""
    before = settled(cluster)
    yield
    left = changes(before, everything(cluster))
    assert not left, "\n".join(left)


def ours(cluster: Cluster) -> list[str]:
    """What in the cluster is a run's: namespaces, Jobs, pods, claims and their volumes."""
    label = "labelSelector=app.kubernetes.io/managed-by%3Dleadline"
    found = []
    for root in (
        "/api/v1/namespaces",
        "/apis/batch/v1/jobs",
        "/api/v1/pods",
        "/api/v1/persistentvolumeclaims",
    ):
        for item in cluster.request(f"{root}?{label}")["items"]:
            found.append(f"{root.rpartition('/')[2]} {item['metadata']['name']}")
    for item in cluster.request("/api/v1/persistentvolumes")["items"]:
        claim = item["spec"].get("claimRef") or {}
        if str(claim.get("name", "")).startswith("leadline-"):
            found.append(f"persistentvolumes {item['metadata']['name']}")
    return found


def pods(cluster: Cluster) -> list[Manifest]:
    """The runner pods that there are."""
    label = "labelSelector=app.kubernetes.io/managed-by%3Dleadline"
    return list(cluster.request(f"/api/v1/pods?{label}")["items"])


def volumes(cluster: Cluster) -> list[Manifest]:
    return list(cluster.request("/api/v1/persistentvolumes")["items"])


@contextlib.contextmanager
def space(cluster: Cluster, name: str, quota: Mapping[str, str] | None = None) -> Iterator[str]:
    """A namespace of a user, with a quota in force, removed afterwards."""
    objects.namespace(cluster, name)
    try:
        if quota is not None:
            path = f"/api/v1/namespaces/{name}/resourcequotas/limit"
            cluster.apply(
                {
                    "apiVersion": "v1",
                    "kind": "ResourceQuota",
                    "metadata": {"name": "limit", "namespace": name},
                    "spec": {"hard": dict(quota)},
                }
            )
            cluster.until("the quota", lambda: "hard" in cluster.request(path)["status"])
        yield name
    finally:
        objects.removed(cluster, name)


@contextlib.contextmanager
def applied(cluster: Cluster, *manifests: Manifest) -> Iterator[None]:
    """Objects that are there meanwhile."""
    made: list[str] = []
    try:
        for manifest in manifests:
            link = cluster.apply(manifest)
            assert link["metadata"]["uid"]
            made.append(_link(cluster, manifest))
        _in_force(cluster, manifests)
        yield
    finally:
        for path in reversed(made):
            with contextlib.suppress(Refused):
                cluster.request(path, "DELETE")


def _in_force(cluster: Cluster, manifests: Sequence[Manifest]) -> None:
    """Wait until users have what the roles among these give them."""
    for manifest in manifests:
        if not manifest["kind"].endswith("RoleBinding"):
            continue
        named, place = manifest["roleRef"], manifest["metadata"].get("namespace", "default")
        for role in manifests:
            if (role["kind"], role["metadata"]["name"]) == (named["kind"], named["name"]):
                for user in manifest["subjects"]:
                    objects.rights(cluster, user["name"], role["rules"], place)


@contextlib.contextmanager
def slow_removal(cluster: Cluster, delay_s: float) -> Iterator[None]:
    """Meanwhile the class `block` takes its time to remove a volume whose claim is gone."""
    argv, settings = cluster._commands["block-provisioner"]
    cluster.kill("block-provisioner")
    cluster.run_part("block-provisioner", argv, settings | {"DELETE_DELAY_S": f"{delay_s:g}"})
    try:
        yield
    finally:
        cluster.kill("block-provisioner")
        cluster.run_part("block-provisioner", argv, settings)


@contextlib.contextmanager
def retained(cluster: Cluster) -> Iterator[str]:
    """The class `slow`, which keeps its volumes after use meanwhile."""
    path = "/apis/storage.k8s.io/v1/storageclasses/slow"
    (usual,) = [
        storage_class
        for storage_class in classes.storage_classes()
        if storage_class["metadata"]["name"] == "slow"
    ]
    # What is kept cannot be changed.
    cluster.request(path, "DELETE")
    cluster.apply(usual | {"reclaimPolicy": "Retain"})
    try:
        yield "slow"
    finally:
        cluster.request(path, "DELETE")
        cluster.apply(usual)


def _link(cluster: Cluster, manifest: Manifest) -> str:
    version, metadata = manifest["apiVersion"], manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for kind in cluster.request(root)["resources"]:
        if kind["kind"] == manifest["kind"] and "/" not in kind["name"]:
            where = f"/namespaces/{metadata['namespace']}" if kind["namespaced"] else ""
            return f"{root}{where}/{kind['name']}/{metadata['name']}"
    raise LookupError(manifest["kind"])
