"""The capture of a live Kubernetes cluster, with a double of the connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import httpx2
import pytest
from lightkube import ApiError
from lightkube.models.core_v1 import Container, PodSpec, PodStatus
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod

from leadline import errors
from leadline.connect.kubernetes.client import Connection
from leadline.connect.shell import CommandResult
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.kinds import GAPS, VERSION, ObjectKind, config_map_names
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.probes.kubernetes import capture
from tests.conftest import RECORDED
from tests.unit.inventory.kubernetes.conftest import CLUSTERS

CEPH = RECORDED.parent / "ceph-multi-az"


def denied(verb: str, resource: str) -> LeadlineError:
    return LeadlineError(
        errors.KUBERNETES_DENIED, f"this user may not {verb} {resource}", hint="have a rule added"
    )


@dataclass
class Cluster:
    """Objects by resource, and what is refused. `asked` are verbs with resources."""

    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    config_maps: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    refused: dict[str, LeadlineError] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def listed(
        self, group: str, version: str, plural: str, kind: str, namespace: str | None = None
    ) -> list[dict[str, Any]]:
        resource = f"{plural}.{group}" if group else plural
        self.asked.append(("list", resource, namespace or ""))
        if resource in self.refused:
            raise self.refused[resource]
        return [
            item for item in self.objects.get(resource, []) if item.pop("v", version) == version
        ]

    def ask(
        self,
        verb: str,
        resource: str,
        call: Callable[[Any], Any],
        *,
        namespace: str = "",
        name: str = "",
    ) -> Any:
        self.asked.append((verb, resource, f"{namespace}/{name}"))
        if resource in self.refused:
            raise self.refused[resource]
        if resource == "version":
            return {"gitVersion": "v1.34.4", "goVersion": "go1.26"}
        return call(self)

    def get(self, resource: Any, name: str, namespace: str = "") -> Any:
        if resource is Namespace:
            return Namespace(metadata=ObjectMeta(name=name, uid="the-uid"))
        assert resource is ConfigMap
        if (namespace, name) not in self.config_maps:
            raise ApiError(
                response=httpx2.Response(
                    404, json={"kind": "Status", "code": 404, "message": "not found"}
                )
            )
        return ConfigMap(
            metadata=ObjectMeta(name=name, namespace=namespace),
            data=self.config_maps[namespace, name],
        )

    def list(self, resource: Any, namespace: str, labels: dict[str, str]) -> list[Pod]:
        assert resource is Pod
        assert labels == {"app": "rook-ceph-tools"}
        return self.pods

    @property
    def connection(self) -> Connection:
        return cast(Connection, self)


def rook() -> Cluster:
    metadata = {"name": "rook-ceph", "namespace": "rook-ceph"}
    return Cluster(
        objects={
            "nodes": [{"metadata": {"name": "a"}, "status": {"images": [{"names": ["x"]}]}}],
            "storageclasses.storage.k8s.io": [
                {"metadata": {"name": "c"}, "provisioner": "p", "parameters": {"token": "hunter2"}}
            ],
            "cephclusters.ceph.rook.io": [
                {
                    "apiVersion": "ceph.rook.io/v1",
                    "kind": "CephCluster",
                    "metadata": metadata,
                    "spec": {},
                }
            ],
        },
        config_maps={("rook-ceph", "rook-ceph-csi-config"): {"csi-cluster-config-json": "[]"}},
    )


def gaps(dumps: Any) -> list[tuple[str, str]]:
    return [(load["what"], load["reason"]) for load in json.loads(dumps.get(GAPS, "[]"))]


def test_what_a_cluster_answers_is_what_is_read() -> None:
    cluster = rook()
    dumps = capture(cluster.connection)
    found = kubernetes_inventory(dumps)
    assert (found.version, found.uid) == ("v1.34.4", "the-uid")
    assert [node.name for node in found.nodes] == ["a"]
    assert [storage_class.name for storage_class in found.storage_classes] == ["c"]
    assert "configmaps.json" in dumps
    assert b"hunter2" not in b"".join(dumps.values())
    assert b"images" not in dumps["nodes.json"]
    assert gaps(dumps) == [
        ("Ceph", "no pod of rook-ceph-tools runs in rook-ceph: only the configuration in Rook")
    ]


def test_only_what_is_needed_is_asked_and_never_a_secret() -> None:
    cluster = rook()
    capture(cluster.connection)
    verbs = {verb for verb, _, _ in cluster.asked}
    assert verbs == {"get", "list"}
    assert not any("secret" in resource for _, resource, _ in cluster.asked)
    maps = {where for verb, resource, where in cluster.asked if resource == "configmaps"}
    assert maps == {f"rook-ceph/{name}" for name in config_map_names()}
    where = {resource: namespace for verb, resource, namespace in cluster.asked if verb == "list"}
    assert where["nodes"] == ""
    assert where["cephclusters.ceph.rook.io"] == ""


def test_the_newest_version_that_has_objects_counts() -> None:
    pool = {"metadata": {"name": "p", "namespace": "openebs"}, "spec": {"node": "n"}}
    cluster = Cluster(objects={"diskpools.openebs.io": [{**pool, "v": "v1beta2"}]})
    dumps = capture(cluster.connection)
    (item,) = json.loads(dumps["diskpools.json"])["items"]
    assert item["apiVersion"] == "openebs.io/v1beta2"


def test_what_is_forbidden_is_reported_and_the_rest_is_read() -> None:
    cluster = rook()
    for resource in ("nodes", "version", "namespaces", "configmaps", "pods"):
        cluster.refused[resource] = denied("list", resource)
    dumps = capture(cluster.connection)
    reported = dict(gaps(dumps))
    assert reported[ObjectKind.NODE.purpose] == "this user may not list nodes; have a rule added"
    assert set(reported) == {
        "the version of Kubernetes",
        ObjectKind.NODE.purpose,
        ObjectKind.NAMESPACE.purpose,
        f"{ObjectKind.CONFIG_MAP.purpose} in rook-ceph",
        "Ceph",
    }
    found = kubernetes_inventory(dumps)
    assert [storage_class.name for storage_class in found.storage_classes] == ["c"]
    assert len(found.gaps) == 5


def test_a_user_who_may_see_nothing_is_refused() -> None:
    cluster = Cluster(refused={kind.resource: denied("list", kind.resource) for kind in ObjectKind})
    with pytest.raises(LeadlineError) as caught:
        capture(cluster.connection)
    assert caught.value.kind is errors.KUBERNETES_DENIED


def test_silence_is_no_gap() -> None:
    cluster = rook()
    cluster.refused["cephclusters.ceph.rook.io"] = LeadlineError(
        errors.KUBERNETES_UNREACHABLE, "the API server does not answer"
    )
    with pytest.raises(LeadlineError) as caught:
        capture(cluster.connection)
    assert caught.value.kind is errors.KUBERNETES_UNREACHABLE
    assert cluster.asked[-1][1] == "cephclusters.ceph.rook.io", "nothing is asked behind it"


# --- Ceph through the toolbox -------------------------------------------------------------------


@dataclass
class CephShell:
    """A toolbox that answers what the recorded cluster did."""

    commands: list[str] = field(default_factory=list)
    status: int = 0
    error_line: bytes = b""
    only: str = ""

    name: str = "pod rook-ceph/rook-ceph-tools-1"

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> CommandResult:
        assert script == 'exec ceph --connect-timeout 15 "$@"'
        assert arguments[-2:] == ("--format", "json")
        command = " ".join(arguments[:-2])
        self.commands.append(command)
        if self.status and (not self.only or command == self.only):
            return CommandResult(stdout=b"", stderr=self.error_line, status=self.status)
        path = CEPH / (command.replace(" ", "_").replace("-", "_") + ".json")
        nothing = b"100" if command.startswith("config get") else b"[]"
        content = path.read_bytes() if path.is_file() else nothing
        return CommandResult(stdout=content, stderr=b"", status=0)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> CephShell:
    made = CephShell()
    monkeypatch.setattr("leadline.probes.kubernetes.PodShell", lambda *_: made)
    return made


def with_toolbox() -> Cluster:
    cluster = rook()
    metadata = ObjectMeta(name="rook-ceph-tools-1", uid="u")
    spec = PodSpec(containers=[Container(name="rook-ceph-tools")])
    pending = Pod(metadata=metadata, spec=spec, status=PodStatus(phase="Pending"))
    running = Pod(metadata=metadata, spec=spec, status=PodStatus(phase="Running"))
    cluster.pods = [pending, running]
    return cluster


def test_cephs_answers_are_joined(shell: CephShell) -> None:
    dumps = capture(with_toolbox().connection)
    found = kubernetes_inventory(dumps)
    assert found.ceph is not None
    assert found.ceph.pool("rbd_r3") is not None
    assert {"status", "health detail", "osd df tree", "df detail"} <= set(shell.commands)
    assert "config get mgr mon_target_pg_per_osd" in shell.commands
    assert "config show osd.0" in shell.commands
    assert found.gaps == ()


def test_one_answer_that_the_toolbox_may_not_have(shell: CephShell) -> None:
    shell.status, shell.error_line, shell.only = 13, b"Error EACCES: access denied", "config dump"
    dumps = capture(with_toolbox().connection)
    assert gaps(dumps) == [("parts of Ceph", "the toolbox got no answer to config dump")]
    assert "config_dump.json" not in dumps


@pytest.mark.parametrize(
    ("status", "error_line", "reported"),
    [
        (1, b"[errno 110] RADOS timed out (error connecting to the cluster)", "does not answer"),
        (13, b"[errno 13] RADOS permission denied", "refuses `ceph status`"),
        (127, b"exec: ceph: not found", "the program `ceph` cannot be run in pod rook-ceph/"),
    ],
)
def test_a_toolbox_that_does_not_work(
    shell: CephShell, status: int, error_line: bytes, reported: str
) -> None:
    shell.status, shell.error_line = status, error_line
    dumps = capture(with_toolbox().connection)
    ((what, reason),) = gaps(dumps)
    assert what == "Ceph"
    assert reported in reason
    assert kubernetes_inventory(dumps).ceph is None


def test_of_two_clusters_the_second_is_a_gap(shell: CephShell) -> None:
    cluster = with_toolbox()
    listed = cluster.objects["cephclusters.ceph.rook.io"]
    listed.append({**listed[0], "metadata": {"name": "b", "namespace": "second"}})
    dumps = capture(cluster.connection)
    assert gaps(dumps) == [
        ("Ceph in second", "of several clusters only that in rook-ceph was asked")
    ]


def test_the_probe_keeps_the_dumps_that_a_folder_gives() -> None:
    """The same names and forms, so that an archive's dumps and a folder's are one thing."""
    from leadline.inventory.kubernetes.folder import read_folder

    saved = read_folder(CLUSTERS / "rook").dumps
    names = {kind.dump for kind in ObjectKind} | {GAPS, VERSION}
    assert set(saved) <= names
    assert set(capture(rook().connection)) <= names


def test_a_connection_that_is_lost_is_made_again(
    shell: CephShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is changed by what is asked; after three times it is reported."""
    run, failures = shell.run, [2]

    def flaky(script: str, *arguments: str, **rest: Any) -> CommandResult:
        if failures[0] > 0 and arguments[0] == "status":
            failures[0] -= 1
            raise LeadlineError(errors.SHELL_LOST, "the connection was lost")
        return run(script, *arguments, **rest)

    monkeypatch.setattr(shell, "run", flaky)
    assert kubernetes_inventory(capture(with_toolbox().connection)).ceph is not None
    failures[0] = 3
    dumps = capture(with_toolbox().connection)
    assert gaps(dumps) == [("Ceph", "the connection was lost")]
