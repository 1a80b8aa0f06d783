"""What ships next to the code, for the tests of it: where it lies, its roles, and Helm to call."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT

CHART = ROOT / "deploy" / "helm" / "leadline"
RBAC = ROOT / "deploy" / "rbac"
KREW = ROOT / "deploy" / "krew"
_BUILD_CLIENTS = Path(__file__).parent / "helm" / "build.sh"

PLAN: dict[str, Any] = {
    "leadline": 1,
    "name": "scheduled",
    "targets": [{"name": "fast", "target": "storageclass:fast?size=1Gi"}],
    "profile": "quick",
}

Manifest = dict[str, Any]


def shipped(name: str, namespace: str = "") -> list[Manifest]:
    """The roles of a manifest; a Role is one of the namespace."""
    found = [item for item in yaml.safe_load_all((RBAC / name).read_text()) if item]
    for item in found:
        if item["kind"] == "Role":
            item["metadata"]["namespace"] = namespace
    return found


def bound(user: str, *roles: Manifest) -> list[Manifest]:
    """The roles, and the user bound to each."""
    found = list(roles)
    for role in roles:
        kind, place = role["kind"], {"name": role["metadata"]["name"]}
        if kind == "Role":
            place["namespace"] = role["metadata"]["namespace"]
        group = "rbac.authorization.k8s.io"
        found.append(
            {
                "apiVersion": f"{group}/v1",
                "kind": f"{kind}Binding",
                "metadata": place,
                "roleRef": {"apiGroup": group, "kind": kind, "name": role["metadata"]["name"]},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
            }
        )
    return found


# Values without which the chart makes nothing.
IMAGE = {"repository": "registry.example/leadline"}
VALUES: dict[str, Any] = {"plan": PLAN, "image": IMAGE}


def clients() -> Path:
    """The folder of helm, krew and validate-krew-manifest, built from Go modules or cached."""
    built = subprocess.run([str(_BUILD_CLIENTS)], check=True, stdout=subprocess.PIPE, text=True)
    return Path(built.stdout.strip())


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm with caches and settings of its own below `home`."""

    home: Path

    def __call__(
        self, *words: str, values: Any = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        more = []
        if values is not None:
            given = self.home / "values.json"
            given.write_text(json.dumps(values))
            more += ["--values", str(given)]
        if kubeconfig is not None:
            more += ["--kubeconfig", str(kubeconfig)]
        folders = {
            f"HELM_{name}_HOME": str(self.home / name) for name in ("CACHE", "CONFIG", "DATA")
        }
        return subprocess.run(
            [str(clients() / "helm"), *words, *more],
            env=os.environ | folders,
            capture_output=True,
            text=True,
            timeout=300,
        )
