"""The clusters written by hand (clusters/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.inventory.kubernetes.folder import read_folder
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.reading import kubernetes_inventory

CLUSTERS = Path(__file__).parent / "clusters"
NAMES = sorted(path.name for path in CLUSTERS.iterdir() if path.is_dir())


def inventory(name: str) -> KubernetesInventory:
    return kubernetes_inventory(read_folder(CLUSTERS / name).dumps)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "saved"
    made.mkdir()
    return made
