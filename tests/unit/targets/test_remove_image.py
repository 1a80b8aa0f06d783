"""The removal of an image that a killed client has just used; the real one is in tests/real."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leadline import errors
from leadline.archive.records import Created
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.targets import ceph
from tests.unit.targets.journals import OTHER, TOKEN

IMAGE = f"leadline-run-{TOKEN}"
CREATED = Created(target="t", cluster="c", path=f"rbd:pool/{IMAGE}", token=TOKEN)
ACCESS = CephAccess(conf=Path("ceph.conf"))
OWN = {ceph.OWNER_KEY: f"run {TOKEN}"}


def answers(
    monkeypatch: pytest.MonkeyPatch, labels: Mapping[str, str], used_bytes: int = 4096
) -> list[str]:
    """Answer as `rbd` would, with the image and its labels; what was asked."""
    asked: list[str] = []

    def ask(access: Any, program: str, arguments: tuple[str, ...], *rest: Any) -> str:
        asked.append(arguments[0])
        return {
            "ls": json.dumps([IMAGE, "mine"]),
            "image-meta": json.dumps(labels) if labels else "",
            "du": json.dumps({"images": [{"name": IMAGE, "used_size": used_bytes}]}),
        }.get(arguments[0], "")

    monkeypatch.setattr(ceph, "ask", ask)
    return asked


def test_an_image_with_the_mark_of_the_run_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, OWN)
    assert ceph.remove_image(ACCESS, CREATED, "run") == ()
    assert asked == ["ls", "image-meta", "rm"]


@pytest.mark.parametrize(
    "owner",
    ["other " + TOKEN, TOKEN, f"x run {TOKEN}", f"run {OTHER}", f"run {TOKEN} ", "", "run "],
)
def test_an_image_with_any_other_mark_is_kept(monkeypatch: pytest.MonkeyPatch, owner: str) -> None:
    asked = answers(monkeypatch, {ceph.OWNER_KEY: owner}, used_bytes=0)
    (kept,) = ceph.remove_image(ACCESS, CREATED, "run")
    assert kept == (
        f"{CREATED.path} carries the mark of another owner; it was kept: "
        f"`rbd rm pool/{IMAGE}` if it is yours"
    )
    assert "rm" not in asked


@pytest.mark.parametrize(
    ("labels", "used_bytes", "removed"),
    [({}, 0, True), ({}, 1, False), ({"user.note": "mine"}, 0, False)],
)
def test_an_image_without_a_mark_goes_only_without_data(
    monkeypatch: pytest.MonkeyPatch, labels: dict[str, str], used_bytes: int, removed: bool
) -> None:
    asked = answers(monkeypatch, labels, used_bytes)
    problems = ceph.remove_image(ACCESS, CREATED, "run")
    assert ("rm" in asked) is removed
    assert (problems == ()) is removed
    assert removed or "carries no mark of this run, and holds data" in problems[0]


@pytest.mark.parametrize("namespace", ["", "data", f"leadline-other-{TOKEN}", "leadline-run"])
def test_a_namespace_without_the_name_of_the_run_is_kept(
    monkeypatch: pytest.MonkeyPatch, namespace: str
) -> None:
    """The empty namespace is the default one, with the objects of all users."""
    monkeypatch.setattr(ceph, "run_program", lambda *words: pytest.fail(str(words)))
    created = Created(target="t", cluster="c", path=f"rados:pool/{namespace}", token=TOKEN)
    assert "was kept" in ceph.remove_objects(ACCESS, created, "run")[0]


@pytest.mark.parametrize(
    ("line", "tries"),
    [
        ("rbd: error: image still has watchers", 3),
        ("rbd: delete error: (116) Stale file handle", 3),
        ("rbd: delete error: (13) Permission denied", 1),
    ],
)
def test_an_image_in_use_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, line: str, tries: int
) -> None:
    asked: list[str] = []

    def ask(access: Any, program: str, arguments: tuple[str, ...], *rest: Any) -> str:
        asked.append(arguments[0])
        if arguments[0] == "ls":
            return json.dumps([IMAGE])
        if arguments[0] == "image-meta":
            return json.dumps(OWN)
        if arguments[0] == "rm" and asked.count("rm") < 3:
            raise LeadlineError(errors.CEPH_FAILED, "rbd ended", context=[line])
        return ""

    monkeypatch.setattr(ceph, "ask", ask)
    monkeypatch.setattr(ceph.time, "sleep", lambda seconds: None)
    problems = ceph.remove_image(ACCESS, CREATED, "run")
    assert asked.count("rm") == tries
    assert problems == (
        () if tries == 3 else (f"{CREATED.path} could not be removed: rbd ended; {line}",)
    )
