"""When kubelets are asked, and what is written of those that do not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.trial import StoredTrial
from leadline.errors import LeadlineError
from leadline.formats.json_lines import Missed
from leadline.formats.kubelet import KubeletSample
from leadline.probes.watches import kubelet
from leadline.probes.watches.kubelet import KubeletWatch
from tests.awaiting import wait_for
from tests.conftest import ROOT

TEXT = (ROOT / "tests" / "recorded" / "kubelet" / "metrics-resource.txt").read_text()


class Kubelets:
    """A node with an OSD, one whose kubelet does not know it, and one that is silent."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def nodes(self, namespaces: Collection[str]) -> Mapping[str, int]:
        here = {"storage": 8, "unknown": 4, "silent": 2}
        return here if "rook-ceph" in namespaces else {}

    def read(self, node: str) -> tuple[str, float]:
        self.asked.append(node)
        if node == "silent":
            raise LeadlineError(errors.KUBERNETES_UNREACHABLE, "no answer")
        text = TEXT if node == "storage" else TEXT.replace("rook-ceph", "shop")
        return text, 1_795_749_700.0


class Denied(Kubelets):
    def nodes(self, namespaces: Collection[str]) -> Mapping[str, int]:
        raise LeadlineError(errors.KUBERNETES_DENIED, "this user may not get nodes/proxy")


def test_the_nodes_of_the_storage_are_asked_and_silence_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubelet, "_PERIOD_S", 0.01)
    kubelets = Kubelets()
    with KubeletWatch(kubelets, ("rook-ceph",), tmp_path):
        wait_for(lambda: len(kubelets.asked) > 8)
    asked = len(kubelets.asked) // 3
    assert Counter(kubelets.asked) == dict.fromkeys(("storage", "unknown", "silent"), asked)
    record = StoredTrial(tmp_path, None).kubelets
    samples = [one for one in record if isinstance(one, KubeletSample)]
    assert {(one.node, one.cores) for one in samples} == {("storage", 8)}
    assert len(samples) == asked
    missed = Counter(one.reason for one in record if isinstance(one, Missed))
    unknown = "unknown: no reading of the storage's daemons"
    assert missed == {unknown: asked, "silent: no answer": asked}


@pytest.mark.parametrize(
    ("kubelets", "namespace", "reason"),
    [
        (Kubelets(), "ceph", "no daemon of a storage in the namespaces ceph"),
        (Denied(), "rook-ceph", "this user may not get nodes/proxy"),
    ],
)
def test_a_source_that_has_nothing_is_named_with_the_reason(
    kubelets: Kubelets, namespace: str, reason: str, tmp_path: Path
) -> None:
    with KubeletWatch(kubelets, (namespace,), tmp_path):
        pass
    record = StoredTrial(tmp_path, None).kubelets
    assert reason in {one.reason for one in record if isinstance(one, Missed)}
    assert not any(isinstance(one, KubeletSample) for one in record)
