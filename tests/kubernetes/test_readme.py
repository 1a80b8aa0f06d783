"""Run the commands about Kubernetes of docs/tutorial/tour.md on a real cluster."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.conftest import ROOT
from tests.kubernetes import images
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline, nothing_left

# What the node of the tests is too small for, or would take too long.
SMALLER = ("--runner-cpu", "300m", "--runner-memory", "128Mi", "--repeats", "1")
SHORTER = ("--runtime", "1s", "--ramp", "0", "--size", "16M")


def test_its_lines_do_what_they_say(cluster: Cluster, tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorial" / "tour.md"
    text = page.read_text("utf-8").partition("## Kubernetes")[2]
    lines = re.findall(r"^uv run leadline (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    calls = [shlex.split(line) for line in lines]
    assert [call[0] for call in calls] == ["plan", "run", "run", "inventory"]
    leadline = Leadline(cluster=cluster, folder=tmp_path)
    leadline("inventory", "--kubernetes", "--save", tmp_path / "must-gather").went_well()
    plan, whole, single, inventory = calls
    image = ("--runner-image", images.RUNNER)
    with nothing_left(cluster):
        leadline(*plan, *image, *SMALLER, "--volumes", "1Gi", "--class", "fast").went_well()
        assert "storageclass:fast?size=1Gi" in (tmp_path / "plan.yaml").read_text()
        leadline(*whole, *SHORTER).answered()
        leadline(*single, *image, *SMALLER, *SHORTER).answered()
    assert "StorageClasses" in leadline(*inventory).went_well().out
