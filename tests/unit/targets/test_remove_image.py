"""The removal of an image that a killed client has just used; the real one is in tests/real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline import errors
from leadline.archive.records import Created
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.targets import ceph

CREATED = Created(target="t", cluster="c", path="rbd:pool/leadline-run-t1", token="t1")


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
            return json.dumps(["leadline-run-t1"])
        if arguments[0] == "rm" and asked.count("rm") < 3:
            raise LeadlineError(errors.CEPH_FAILED, "rbd ended", context=[line])
        return ""

    monkeypatch.setattr(ceph, "ask", ask)
    monkeypatch.setattr(ceph.time, "sleep", lambda seconds: None)
    problems = ceph.remove_image(CephAccess(conf=Path("ceph.conf")), CREATED)
    assert asked.count("rm") == tries
    assert problems == (
        () if tries == 3 else (f"{CREATED.path} could not be removed: rbd ended; {line}",)
    )
