"""Scheduled runs on a node: the images of the Containerfile, the chart, its own rights, S3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT
from tests.kubernetes.cluster import Cluster, Refused
from tests.kubernetes.shipped import CHART, PLAN, Helm
from tests.unit.connect.prometheus_double import prometheus_double

# Building both images takes minutes.
pytestmark = pytest.mark.deep

BUILD_IMAGES = ROOT / "deploy" / "image" / "build-offline.sh"
NAMESPACE = "scheduled"
# A server of S3's protocol that is neither ours nor rclone's.
S3_SERVER = ("uv", "tool", "run", "--from", "moto[server]==5.1.18", "moto_server")


@dataclass(frozen=True, slots=True)
class Image:
    """An image on the node, named by digest, and its OCI configuration."""

    name: str
    config: dict[str, Any]

    @property
    def repository(self) -> str:
        return self.name.partition("@")[0]

    @property
    def digest(self) -> str:
        return self.name.partition("@")[2]


@pytest.fixture(scope="session")
def images(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Image]:
    """`leadline` and `leadline-runner` of the Containerfile, built and loaded."""
    folder = tmp_path_factory.mktemp("images")
    # What a killed build leaves lies below pytest's folder too, which removes it in time.
    place = os.environ | {"TMPDIR": str(folder)}
    subprocess.run([str(BUILD_IMAGES), str(folder)], check=True, env=place)
    address = str(cluster.folder / "containerd.sock")
    found = {}
    for tar in sorted(folder.glob("*.tar")):
        with tarfile.open(tar) as archive:
            (listed,) = _parsed(archive, "index.json")["manifests"]
            manifest = _parsed(archive, _blob(listed["digest"]))
            config = _parsed(archive, _blob(manifest["config"]["digest"]))
        tagged = listed["annotations"]["org.opencontainers.image.ref.name"]
        name = f"{tagged.rpartition(':')[0]}@{listed['digest']}"
        cluster.load_image(tar)
        tar.unlink()
        # As docs/guides/kubernetes-air-gapped.md has it.
        tag = ["ctr", "--address", address, "-n", "k8s.io", "images", "tag", "--force"]
        cluster.keeper.run([*tag, tagged, name])
        found[tar.stem] = Image(name, config)
    return found


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _parsed(archive: tarfile.TarFile, name: str) -> Any:
    file = archive.extractfile(name)
    assert file is not None
    return json.load(file)


def test_the_images_are_no_roots_and_carry_no_trace_of_where_they_were_built(
    images: dict[str, Image],
) -> None:
    assert set(images) == {"leadline", "leadline-runner"}
    for name, image in images.items():
        config = image.config["config"]
        assert config["User"] == "1000:1000"
        assert config["Labels"]["org.opencontainers.image.title"] == name
        assert not [item for item in config["Env"] if "CERT" in item or "proxy" in item.lower()]


class Release:
    """The chart in the cluster, and what its runs did."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def start(self, name: str) -> None:
        """Start a run now, as `kubectl create job --from=cronjob/...` does it."""
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs/weekly-leadline"
        cron = self.cluster.request(path)
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": cron["spec"]["jobTemplate"]["spec"],
        }
        self.cluster.request(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", "POST", job)

    def finish(self, name: str, bound_s: float = 240) -> str:
        """Wait for the run's end: `Complete` or `Failed`."""
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{name}"
        ends = ("Complete", "Failed")

        def ended() -> bool:
            return bool(_conditions(self.cluster.request(path)) & set(ends))

        self.cluster.until(f"the end of {name}", ended, bound_s)
        return next(end for end in ends if end in _conditions(self.cluster.request(path)))

    def delete(self, name: str) -> None:
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{name}"
        body = {"propagationPolicy": "Background"}
        self.cluster.request(path, "DELETE", body)

    def pods(self, name: str) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=job-name%3D{name}"
        return list(self.cluster.request(path)["items"])

    def log(self, name: str) -> str:
        said = []
        for pod in self.pods(name):
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}/log"
            for container in ("clean", "leadline"):
                try:
                    said.append(str(self.cluster.request(f"{path}?container={container}")))
                except Refused as refusal:
                    said.append(str(refusal))
        return "\n".join(said)

    def results(self) -> Path:
        """Where the results volume lies on this machine."""
        path = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/weekly-leadline-results"
        volume = self.cluster.request(path)["spec"]["volumeName"]
        spec = self.cluster.request(f"/api/v1/persistentvolumes/{volume}")["spec"]
        return Path(spec["hostPath"]["path"])

    def left(self) -> set[str]:
        """Namespaces and volumes of the whole cluster, but for those of the release itself."""
        namespaces = self.cluster.request("/api/v1/namespaces")["items"]
        volumes = self.cluster.request("/api/v1/persistentvolumes")["items"]
        return {f"namespace {namespace['metadata']['name']}" for namespace in namespaces} | {
            f"volume {volume['metadata']['name']}"
            for volume in volumes
            if volume["spec"]["claimRef"]["namespace"] != NAMESPACE
        }


def _conditions(found: dict[str, Any]) -> set[str]:
    told = found.get("status", {}).get("conditions", [])
    return {item["type"] for item in told if item["status"] == "True"}


@pytest.fixture(scope="module")
def s3(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server, which pods reach, with a bucket `results`."""
    said = tmp_path_factory.mktemp("s3") / "log"
    address = f"http://{cluster.network.host}:15599"
    command = [*S3_SERVER, "-H", cluster.network.host, "-p", "15599"]
    with said.open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 180
        while not _answers(address):
            assert server.poll() is None, said.read_text()
            assert time.monotonic() < deadline, "the S3 server does not come up"
            time.sleep(0.2)
        _asked(f"{address}/results", "PUT")
        yield address
    finally:
        server.terminate()
        server.wait(30)


def _answers(address: str) -> bool:
    try:
        _asked(address)
    except OSError:
        return False
    return True


def _asked(url: str, method: str = "GET") -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, method=method), timeout=20) as answer:
        return bytes(answer.read())


@pytest.fixture
def release(
    cluster: Cluster, images: dict[str, Image], s3: str, tmp_path: Path
) -> Iterator[Release]:
    """The chart, installed with all of it by digest into a namespace that enforces the strictest
    pod security."""
    helm = Helm(tmp_path)
    security = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    named = {"name": NAMESPACE, **security}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": named})
    keys = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "something"}
    named = {"name": "keys", "namespace": NAMESPACE}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": named, "stringData": keys})
    leadline, runner = images["leadline"], images["leadline-runner"]
    here = {"image": runner.name, "pull_policy": "Never", "cpu": 1, "memory": "256M"}
    values = {
        "plan": PLAN
        | {
            "clusters": {"here": {"kubernetes": here}},
            "defaults": {"size": "16M", "runtime": "1s", "ramp": "0s"},
            "repeats": 1,
        },
        "schedule": "0 3 1 1 *",
        "image": {
            "repository": leadline.repository,
            "digest": leadline.digest,
            "pullPolicy": "Never",
        },
        "results": {"storageClass": "slow", "size": "1Gi"},
        "s3": {"enabled": True, "endpoint": s3, "bucket": "results", "existingSecret": "keys"},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    where = ("weekly", "-n", NAMESPACE)
    installing = ("install", *where, str(CHART))
    done = helm(*installing, values=values, kubeconfig=cluster.kubeconfig())
    assert done.returncode == 0, done.stderr
    try:
        yield Release(cluster)
    finally:
        helm("uninstall", *where, "--wait", kubeconfig=cluster.kubeconfig())
        cluster.request(f"/api/v1/namespaces/{NAMESPACE}", "DELETE")
        cluster.until("the end of the namespace", lambda: _gone(cluster, NAMESPACE))


def _gone(cluster: Cluster, namespace: str) -> bool:
    try:
        cluster.request(f"/api/v1/namespaces/{namespace}")
    except Refused as refusal:
        return refusal.status == 404
    return False


def test_a_scheduled_run_with_the_charts_own_rights(release: Release, s3: str) -> None:
    before = release.left()
    release.start("now")
    assert release.finish("now") == "Complete", release.log("now")
    said = release.log("now")
    assert "nothing was left behind" in said
    assert "copied /results to s3:results/leadline" in said
    # Nothing is left of the run but its archive, which is whole, on the volume and in the bucket.
    release.cluster.until("the end of the run's namespace", lambda: release.left() == before, 60)
    (run,) = release.results().iterdir()
    checked = subprocess.run(
        ["leadline", "verify", str(run)], env=_with_scripts(), capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    kept = {str(path.relative_to(run.parent)) for path in run.rglob("*") if path.is_file()}
    assert _copied(s3) == {f"leadline/{name}" for name in kept if not name.endswith(".lock")}


def test_a_run_that_is_called_off_cleans_up(release: Release) -> None:
    before = release.left()
    release.start("called-off")
    release.cluster.until("the run's namespace", lambda: bool(release.left() - before))
    release.delete("called-off")
    release.cluster.until("the pod's end", lambda: not release.pods("called-off"), 180)
    release.cluster.until("the end of the run's volumes", lambda: release.left() == before, 60)


def test_a_run_that_its_guard_stops_is_no_failure_like_others(
    release: Release, s3: str, tmp_path: Path
) -> None:
    """The limit is crossed in the middle of the run, which cleans up and keeps its archive."""
    cluster = release.cluster
    with prometheus_double(cluster.network.host) as prometheus:
        limit = {"name": "latency of others", "url": prometheus.url, "query": "latency"}
        guard = {"prometheus": [{**limit, "above": 0.02}], "every": "1s"}
        values = {"plan": {"guard": guard}}
        changed = ("upgrade", "weekly", "-n", NAMESPACE, str(CHART), "--reuse-values")
        done = Helm(tmp_path)(*changed, values=values, kubeconfig=cluster.kubeconfig())
        assert done.returncode == 0, done.stderr
        before = release.left()
        release.start("guarded")
        cluster.until("the run's namespace", lambda: bool(release.left() - before), 120)
        prometheus.set(db="0.05")
        assert release.finish("guarded") == "Failed", release.log("guarded")
    job = cluster.request(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/guarded")
    (failed,) = [item for item in job["status"]["conditions"] if item["type"] == "Failed"]
    assert failed["reason"] == "PodFailurePolicy", failed
    (pod,) = release.pods("guarded")
    (ended,) = [item["state"]["terminated"] for item in pod["status"]["containerStatuses"]]
    assert ended["exitCode"] == 7
    assert "error[guard-stopped]: the guard's limit 'latency of others'" in ended["message"]
    cluster.until("the end of the run's namespace", lambda: release.left() == before, 60)
    runs = [json.loads(path.read_text()) for path in release.results().glob("*/manifest.json")]
    assert "stopped-by-guard" in {run["status"] for run in runs}


def test_uninstalling_in_the_middle_of_a_run_leaves_nothing(
    release: Release, tmp_path: Path
) -> None:
    before = release.left()
    release.start("underway")
    release.cluster.until("the run's namespace", lambda: bool(release.left() - before))
    helm = Helm(tmp_path)
    where = ("weekly", "-n", NAMESPACE)
    done = helm("uninstall", *where, kubeconfig=release.cluster.kubeconfig())
    assert done.returncode == 0, done.stderr
    release.cluster.until("the end of the run's volumes", lambda: release.left() == before, 60)
    assert not release.pods("underway")


def _with_scripts() -> dict[str, str]:
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _copied(address: str) -> set[str]:
    """The keys in the bucket."""
    found = ElementTree.fromstring(_asked(f"{address}/results?list-type=2")).iter()
    return {item.text or "" for item in found if item.tag.endswith("}Key") or item.tag == "Key"}
