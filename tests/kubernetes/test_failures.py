"""What goes wrong in clusters: each is reported by its cause, in bounded time, and cleaned up."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import classes, images, objects
from tests.kubernetes.cluster import NODE, Cluster, Refused
from tests.kubernetes.driving import (
    Ended,
    Leadline,
    Manifest,
    Running,
    applied,
    everything,
    nothing_left,
    ours,
    pods,
    settled,
    space,
)

RAW = "raw=storageclass:block?size=96Mi"
FILES = "files=storageclass:fast?size=96Mi"
LONG = {"defaults": {"size": "64M", "runtime": "20s", "ramp": "0s"}}


@pytest.fixture
def leadline(cluster: Cluster, tmp_path: Path) -> Leadline:
    return Leadline(cluster=cluster, folder=tmp_path)


def says(ended: Ended, *words: str) -> None:
    missing = [word for word in words if word not in ended.err]
    assert not missing, f"{missing} not in:\n{ended.err}"


# --- before anything is made ---------------------------------------------------------------------


def test_a_class_that_is_not_there_names_the_nearest(leadline: Leadline) -> None:
    ended = leadline("run", leadline.plan("raw=storageclass:blok?size=96Mi"))
    says(ended.failed("class-unsuitable", 3), "no StorageClass 'blok'", "storageclass:block?")
    assert not leadline.runs.exists()


def test_a_class_of_folders_gives_no_raw_block(leadline: Leadline) -> None:
    ended = leadline("run", leadline.plan("raw=storageclass:fast?size=96Mi&mode=block"))
    says(ended.failed("class-unsuitable", 3), "no raw block devices", classes.LOCAL_PATH)
    assert not leadline.runs.exists()


@pytest.mark.parametrize(
    ("option", "said"), [("node=lab-nod", "no node 'lab-nod'"), ("zone=b", "in a zone 'b'")]
)
def test_a_place_that_is_not_there(leadline: Leadline, option: str, said: str) -> None:
    ended = leadline("run", leadline.plan(f"{RAW}&{option}"))
    says(ended.failed("target-invalid", 2), said)


def test_a_context_that_is_not_there(leadline: Leadline) -> None:
    ended = leadline("run", leadline.plan(RAW, cluster={"context": "elsewhere"}))
    says(ended.failed("cluster-unknown", 2), "'elsewhere'")


def test_a_server_that_does_not_answer(leadline: Leadline) -> None:
    written = json.loads(leadline.cluster.kubeconfig().read_text())
    written["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    kubeconfig = leadline.folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(written))
    ended = leadline("run", leadline.plan(RAW), "--kubeconfig", kubeconfig)
    says(ended.failed("kubernetes-unreachable", 3), "https://127.0.0.1:9", "refused")
    assert ended.wall_s < 100


@pytest.mark.parametrize(
    ("quota", "target"),
    [
        ({"requests.storage": "64Mi"}, RAW),
        ({"pods": "1"}, f"{RAW}&count=2"),
        ({"requests.cpu": "100m"}, RAW),
    ],
)
def test_a_quota_is_asked_before_anything_is_made(
    leadline: Leadline, quota: dict[str, str], target: str
) -> None:
    with space(leadline.cluster, "limited", quota):
        ended = leadline("run", leadline.plan(target, cluster={"namespace": "limited"}))
    says(ended.failed("quota-exceeded", 3), *quota, "'limit'", "'limited'")
    assert not leadline.runs.exists()


def test_more_cpu_than_any_node_has(leadline: Leadline) -> None:
    ended = leadline("run", leadline.plan(RAW), "--runner-cpu", "500")
    says(ended.failed("target-invalid", 2), "no node is large enough", "500 CPU", "allocatable")
    assert not leadline.runs.exists()


# --- while pods come up --------------------------------------------------------------------------


def refused_in(leadline: Leadline, namespace: str, **cluster: str) -> Ended:
    """A run in that namespace, which leaves nothing there."""
    before = settled(leadline.cluster)
    ended = leadline("run", leadline.plan(RAW, cluster={"namespace": namespace, **cluster}))
    made = everything(leadline.cluster).keys() - before.keys()
    assert not made
    return ended


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        ("count/pods", "pod"),
        ("count/persistentvolumeclaims", "volume claim"),
        ("count/jobs.batch", "jobs.batch"),
    ],
)
def test_a_quota_that_shows_late(leadline: Leadline, limit: str, what: str) -> None:
    with space(leadline.cluster, "limited", {limit: "0"}):
        ended = refused_in(leadline, "limited")
    says(ended.failed("quota-exceeded", 3), what, limit, "exceeded quota: limit")


def policy(name: str, group: str, plural: str, **validation: str) -> tuple[Manifest, Manifest]:
    """A ValidatingAdmissionPolicy against one kind in the namespace of its own name."""
    version, named = "admissionregistration.k8s.io/v1", {"name": name}
    rule = {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": [plural],
    }
    return (
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": named,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                    "resourceRules": [rule],
                },
                "validations": [{"expression": "false", **validation}],
            },
        },
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": named,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )


@pytest.mark.parametrize(
    ("group", "plural", "more"),
    [("batch", "jobs", {"reason": "Forbidden"}), ("", "pods", {})],
)
def test_an_admission_policy_is_reported_in_its_own_words(
    leadline: Leadline, group: str, plural: str, more: dict[str, str]
) -> None:
    cluster, words = leadline.cluster, "volumes are measured on Tuesdays"
    with (
        space(cluster, "guarded"),
        applied(cluster, *policy("guarded", group, plural, message=words, **more)),
    ):
        in_force(cluster, "guarded", plural)
        ended = refused_in(leadline, "guarded")
    says(ended.failed("kubernetes-failed", 4), words, "ValidatingAdmissionPolicy 'guarded'")
    assert "added to its role" not in ended.err


def in_force(cluster: Cluster, namespace: str, plural: str) -> None:
    """Wait until what was applied against a kind is obeyed: asked for, and not kept."""
    job = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [BOX]}}}}
    root, body = {
        "jobs": ("/apis/batch/v1", {"apiVersion": "batch/v1", "kind": "Job", **job}),
        "pods": ("/api/v1", objects.pod(namespace, "probe", "Filesystem")),
        "persistentvolumeclaims": (
            "/api/v1",
            objects.claim(namespace, "probe", "block", "Block", "1Mi"),
        ),
    }[plural]
    path = f"{root}/namespaces/{namespace}/{plural}?dryRun=All"

    def refused() -> bool:
        try:
            cluster.request(path, "POST", body | {"metadata": {"name": "probe"}})
        except Refused as refusal:
            return "service account" not in refusal.text
        return False

    cluster.until("the refusal", refused)


BOX = {"name": "main", "image": images.RUNNER}


def hook(name: str, group: str, plural: str, **client: str) -> Manifest:
    """A webhook that is asked about one kind in the namespace of its own name."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "guard.leadline.test",
                "clientConfig": client,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 2,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "rules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": [plural],
                    }
                ],
            }
        ],
    }


class _Guard(http.server.BaseHTTPRequestHandler):
    """A webhook that says no."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {
            "uid": asked["request"]["uid"],
            "allowed": False,
            "status": {"message": "no benchmarks during business hours"},
        }
        body = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@contextlib.contextmanager
def guard(cluster: Cluster, folder: Path) -> Iterator[dict[str, str]]:
    """The webhook's server on this machine, as a `clientConfig` calls it."""
    host = cluster.network.host
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=guard"
    named = ["-addext", f"subjectAltName=IP:{host}"]
    written = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make.split(), *named, *written], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer((host, 0), _Guard)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"https://{host}:{server.server_address[1]}/"
        yield {"url": url, "caBundle": base64.b64encode(certificate.read_bytes()).decode()}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(("group", "plural"), [("batch", "jobs"), ("", "pods")])
def test_a_webhook_that_refuses_is_reported_in_its_own_words(
    leadline: Leadline, group: str, plural: str
) -> None:
    cluster = leadline.cluster
    with (
        space(cluster, "hooked"),
        guard(cluster, leadline.folder) as client,
        applied(cluster, hook("hooked", group, plural, **client)),
    ):
        in_force(cluster, "hooked", plural)
        ended = refused_in(leadline, "hooked")
    says(ended.failed("kubernetes-failed", 4), "no benchmarks during business hours")


@pytest.mark.parametrize(
    ("plural", "what"), [("pods", "pod"), ("persistentvolumeclaims", "volume claim")]
)
def test_a_webhook_that_does_not_answer(leadline: Leadline, plural: str, what: str) -> None:
    cluster = leadline.cluster
    broken = hook("unhooked", "", plural, url="https://127.0.0.1:9/")
    with space(cluster, "unhooked"), applied(cluster, broken):
        in_force(cluster, "unhooked", plural)
        ended = refused_in(leadline, "unhooked", ready="10s")
    says(ended.failed("kubernetes-failed", 4), "failed calling webhook", what)
    assert ended.wall_s < 90


def test_a_namespace_that_is_not_there(leadline: Leadline) -> None:
    ended = refused_in(leadline, "nowhere")
    says(ended.failed("target-invalid", 2), "no namespace 'nowhere'")


def test_a_namespace_that_is_being_deleted(leadline: Leadline) -> None:
    cluster = leadline.cluster
    path = "/api/v1/namespaces/ending"
    objects.namespace(cluster, "ending")
    kept = {"name": "kept", "namespace": "ending", "finalizers": ["leadline.test/kept"]}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept})
    cluster.request(path, "DELETE")
    try:
        ended = leadline("run", leadline.plan(RAW, cluster={"namespace": "ending"}))
    finally:
        cluster.request(
            f"{path}/configmaps/kept",
            "PATCH",
            {"metadata": {"finalizers": None}},
            kind="application/merge-patch+json",
        )
    says(ended.failed("kubernetes-failed", 4), "'ending' is being deleted")


def test_a_claim_that_stays_pending_reports_its_events(leadline: Leadline) -> None:
    plan = leadline.plan("stuck=storageclass:stuck?size=96Mi", cluster={"ready": "15s"})
    with nothing_left(leadline.cluster):
        ended = leadline("run", plan)
    says(ended.failed("volume-pending", 4), "ExternalProvisioning", "leadline-lab/absent", "15 s")


def test_an_image_that_no_user_has(leadline: Leadline) -> None:
    # A registry that is not there, which this machine reports at once.
    image = "127.0.0.1:9/leadline/runner:1"
    with nothing_left(leadline.cluster):
        ended = leadline("run", leadline.plan(FILES), "--runner-image", image)
    says(ended.failed("runner-failed", 4), image, "no image", "--runner-image")
    says(ended, "nothing was measured yet: begin the run again with that")
    assert "--resume" not in ended.err


def test_an_image_without_a_shell(leadline: Leadline) -> None:
    with nothing_left(leadline.cluster):
        ended = leadline("run", leadline.plan(FILES), "--runner-image", images.PAUSE)
    says(ended.failed("runner-failed", 4), "/bin/sh", "a shell and GNU coreutils")


def test_an_image_without_fio(leadline: Leadline) -> None:
    image = "registry.example/leadline-lab/no-fio:1"
    tar = images.write(
        leadline.folder / "no-fio.tar",
        image,
        images.runner_files(name for name in images.PROGRAMS if name != "fio"),
        command=["/bin/sh"],
    )
    leadline.cluster.load_image(tar)
    with nothing_left(leadline.cluster):
        ended = leadline("run", leadline.plan(FILES), "--runner-image", image)
    says(ended.failed("runner-failed", 4), f"{image!r} lacks fio", "Containerfile")


# --- while fio runs ------------------------------------------------------------------------------


def test_too_little_memory(leadline: Leadline) -> None:
    plan = leadline.plan(
        "raw=storageclass:block?size=288Mi",
        workload={"pattern": "write", "block_size": "1M", "iodepth": 13, "numjobs": 4},
    )
    # More than fio's buffers, and less than its program takes with them.
    with nothing_left(leadline.cluster):
        ended = leadline("run", plan, "--runner-memory", "61Mi")
    assert ended.status == 4, ended.err
    says(ended, "memory")
    # To do it again with the same memory would not help.
    assert "--retry-failed" not in ended.err
    assert leadline("check", plan, "--runner-memory", "59Mi").status == 2


def begun(leadline: Leadline, **more: Any) -> tuple[Running, str]:
    """A run in the middle of its first trial, and the path of its pod."""
    running = leadline.start("run", leadline.plan(RAW, **{**LONG, **more}))
    running.says("[1/")
    (pod,) = pods(leadline.cluster)
    place = pod["metadata"]
    path = f"/api/v1/namespaces/{place['namespace']}/pods/{place['name']}"
    time.sleep(2)
    assert running.child.poll() is None
    return running, path


def delete(cluster: Cluster, path: str) -> None:
    cluster.request(path, "DELETE")


def evict(cluster: Cluster, path: str) -> None:
    _, _, _, _, namespace, _, name = path.split("/")
    body = {"apiVersion": "policy/v1", "kind": "Eviction"}
    body["metadata"] = {"name": name, "namespace": namespace}  # type: ignore[assignment]
    cluster.request(f"{path}/eviction", "POST", body)


def fill(cluster: Cluster, path: str) -> None:
    """Fill the pod's scratch volume beyond its limit: the kubelet evicts it."""
    _, _, _, _, namespace, _, name = path.split("/")
    said = objects.execute(
        cluster, namespace, name, "exec dd if=/dev/zero of=/leadline/scratch/big bs=1M count=300"
    )
    assert said.exit_code == 0, said.stderr


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (delete, ["is being deleted"]),
        (evict, ["is being deleted", "vict"]),
        # A minute and more, since a kubelet looks only now and then.
        pytest.param(fill, ["Evicted", "scratch"], marks=pytest.mark.deep),
    ],
)
def test_a_pod_that_is_lost_in_the_middle(
    leadline: Leadline, loss: Callable[[Cluster, str], None], words: list[str]
) -> None:
    # A kubelet looks only now and then how full volumes are.
    runtime = "90s" if loss is fill else "8s"
    with nothing_left(leadline.cluster):
        running, path = begun(leadline, defaults={"size": "64M", "runtime": runtime, "ramp": "0s"})
        loss(leadline.cluster, path)
        ended = running.ended().answered()
    says(ended, *words, "made anew: new runners and volumes on lab-node")
    lost, repeated = leadline.trials()
    assert (lost["status"], repeated["status"]) == ("failed", "completed")
    assert (lost["attempt"], repeated["attempt"]) == (1, 2)
    assert lost["problem"]["code"] == "runner-failed"
    assert repeated["extent"]["written_bytes"] == 64 << 20
    leadline("verify", leadline.run).went_well()


def test_an_api_server_that_restarts_does_not_touch_a_trial(leadline: Leadline) -> None:
    with nothing_left(leadline.cluster):
        running, _ = begun(leadline)
        leadline.cluster.restart("kube-apiserver", down_s=3)
        running.ended().answered()
    (trial,) = leadline.trials()
    assert trial["status"] == "completed"
    leadline("verify", leadline.run).went_well()
    (path,) = (leadline.run / "trials").glob("*/fio.json")
    (job,) = json.loads(path.read_text())["jobs"]
    # fio did its whole time, and its log has the seconds of it.
    assert job["job_runtime"] >= 20_000
    log = path.with_name("randread_iops.log").read_text().splitlines()
    # But for those in which the machine itself stood still.
    assert len(log) >= 12
    assert int(log[-1].partition(",")[0]) > 10_000, "behind the restart"


def test_a_node_that_falls_silent_is_reported_and_cleaned_when_it_is_back(
    leadline: Leadline,
) -> None:
    cluster = leadline.cluster
    before = settled(cluster)
    slow = {"size": "64M", "runtime": "6s", "ramp": "0s"}
    second = "second=storageclass:block?size=96Mi"
    plan = leadline.plan(RAW, second, cluster={"ready": "20s"}, defaults=slow)
    running = leadline.start("run", plan)
    running.says("[1/")
    cluster.pause("kubelet")
    try:
        ended = running.ended()
        assert ended.status == 4, ended.err
        says(ended, f"on the node {NODE!r}", "was lost", "still has: pod leadline-")
        assert ours(cluster)
        # Nothing can be removed as long as it is silent, and that is reported.
        dry = leadline("clean", "--dry-run").went_well()
        assert "would remove kubernetes:" in dry.out
    finally:
        cluster.resume("kubelet")
    cluster.until("the node", cluster.node_ready)
    leadline("clean").went_well()
    assert ours(cluster) == []
    assert "nothing was left behind" in leadline("clean").out
    assert everything(cluster).keys() == before.keys()
