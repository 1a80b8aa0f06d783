"""`leadline kubernetes image build|load` with a real buildah and a real containerd: an image built
here runs the pods of a run. It has the files of the tests' own image, as no registry is here."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.kubernetes import images
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline, nothing_left

NAME = "localhost/leadline-built:1"
# In namespaces of this machine buildah needs no further set-up.
STORAGE = """\
[storage]
driver = "vfs"
runroot = "{0}/run"
graphroot = "{0}/graph"
"""


def test_a_built_and_loaded_image_runs_the_pods(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = tmp_path / "storage.conf"
    storage.write_text(STORAGE.format(tmp_path / "storage"))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    monkeypatch.delenv("LEADLINE_RUNNER_IMAGE")
    context = tmp_path / "context"
    context.mkdir()
    _root_files(tmp_path, context)
    file = context / "Containerfile"
    file.write_text("ARG BASE=scratch\nFROM ${BASE}\nADD root.tar /\nUSER 1000:1000\n")
    leadline = Leadline(cluster=cluster, folder=tmp_path)
    archive = tmp_path / "runner.tar"
    words = ("kubernetes", "image", "build", "--with", "buildah", "--name", NAME)
    built = leadline(*words, "--containerfile", file, "-o", archive).went_well()
    assert built.out.strip() == NAME
    assert f"export LEADLINE_RUNNER_IMAGE={NAME}" in built.err
    # ctr of this machine reaches the cluster's containerd by its socket.
    place = f"containerd:{cluster.folder / 'containerd.sock'}"
    leadline("kubernetes", "image", "load", place, "--archive", archive).went_well()

    plan = leadline.plan("files=storageclass:fast?size=96Mi", cluster={"image": None})
    missing = leadline("check", plan).failed("plan-invalid", 2)
    assert "no image is named for the pods that run fio" in missing.err
    monkeypatch.setenv("LEADLINE_RUNNER_IMAGE", NAME)
    leadline("check", plan).went_well()
    with nothing_left(cluster):
        leadline("run", plan).answered()
    (runners,) = (leadline.run / "trials").glob("*/runners.json")
    assert NAME in runners.read_text()


def _root_files(folder: Path, context: Path) -> None:
    """The only layer of the tests' image as a tar."""
    packed = images.runner(folder)
    with tarfile.open(packed) as outer:
        (layer,) = [name for name in outer.getnames() if name.endswith("layer.tar")]
        file = outer.extractfile(layer)
        assert file is not None
        (context / "root.tar").write_bytes(file.read())
    packed.unlink()
