"""The image of runner pods: what is built, and the commands that bring it to nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.connect import programs
from leadline.connect.kubernetes import image
from leadline.errors import LeadlineError


def test_only_the_stage_of_runners_is_built() -> None:
    lines = image.runner_containerfile().splitlines()
    assert lines[0].startswith("ARG BASE=")
    assert [line for line in lines if line.startswith("FROM ")] == ["FROM ${BASE} AS runner"]
    assert not [line for line in lines if line.startswith("COPY ")], "it needs no context"
    assert any("fio" in line for line in lines)


def test_the_name_of_the_image_is_in_no_registry() -> None:
    assert image.DEFAULT_NAME.startswith("localhost/")


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("kind", "kind load image-archive a.tar"),
        ("kind:test", "kind load image-archive a.tar --name test"),
        ("minikube:m", "minikube -p m image load a.tar"),
        ("k3s", "k3s ctr images import a.tar"),
        ("containerd", "ctr -n k8s.io images import a.tar"),
        ("containerd:/run/c.sock", "ctr --address /run/c.sock -n k8s.io images import a.tar"),
    ],
)
def test_a_place_has_its_command(place: str, command: str) -> None:
    assert image.import_command(place, Path("a.tar")) == command.split()


@pytest.mark.parametrize("place", ["", "kund", "k3s:x", "docker.io/library/fio"])
def test_another_place_is_refused_with_the_known_ones(place: str) -> None:
    with pytest.raises(LeadlineError) as raised:
        image.import_command(place, Path("a.tar"))
    assert raised.value.kind.code == "usage"
    assert "minikube" in raised.value.context[0]


def test_a_machine_without_a_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda program: None)
    with pytest.raises(LeadlineError, match="none of buildah, podman, docker") as raised:
        image.find_builder(None)
    assert raised.value.kind.code == "image-unavailable"
    with pytest.raises(LeadlineError, match="there is no podman"):
        image.find_builder("podman")


def test_the_first_builder_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda program: program if program != "buildah" else None)
    assert image.find_builder(None).program == "podman"


def test_a_program_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs, "find", lambda program: f"/usr/bin/{program}")
    said = (125, "", "Error: short-name resolution\ncannot reach a registry\n")
    monkeypatch.setattr(programs, "run", lambda *command, **bound: said)
    with pytest.raises(LeadlineError, match="buildah build failed: status 125") as raised:
        image.Builder("buildah").build("n", "FROM x\n", None, None)
    assert raised.value.context[-1] == "cannot reach a registry"
