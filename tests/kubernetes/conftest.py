"""The session's cluster. Tests below this folder bear the marker `kubernetes`; those that need a
node take the fixture `cluster`, the others `api_server`: the same cluster, where a node can run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import classes, crds, probe, up
from tests.kubernetes.cluster import Cluster

_VERDICT = pytest.StashKey[probe.Verdict]()
_HERE = Path(__file__).resolve().parent
# In this order, so that no worker is left with a long one at the end: first what one worker does as
# a whole, by its time, then what is shared test by test (tests/conftest.py).
_LONG_FIRST = (
    "test_failures.py::test_a_node_that_falls_silent",
    "test_readme.py",
    "test_cluster.py",
    "test_volume_lifecycle.py",
    "test_run.py",
    "test_matrix.py",
    "test_root_devices.py",
    "test_two_nodes.py",
    "test_shared_volumes.py",
    "test_databases.py",
    "test_deploy.py",
    "test_virtual_machines.py",
    "test_interrupt.py",
    "test_failures.py",
)


def _place(item: pytest.Item) -> int:
    name = item.nodeid.removeprefix("tests/kubernetes/")
    places = (at for at, begin in enumerate(_LONG_FIRST) if name.startswith(begin))
    return next(places, len(_LONG_FIRST))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kubernetes: on a real Kubernetes cluster of one node")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.kubernetes)
    if all(item.path.is_relative_to(_HERE) for item in items):
        items.sort(key=_place)


@pytest.fixture(scope="session")
def kubernetes_verdict(pytestconfig: pytest.Config) -> probe.Verdict:
    """What this machine can run; also reported at the end of the session."""
    verdict = probe.verdict()
    pytestconfig.stash[_VERDICT] = verdict
    return verdict


@pytest.fixture(scope="session")
def api_server(
    kubernetes_verdict: probe.Verdict, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The session's cluster with StorageClasses and CRDs, in whichever mode."""
    whole = kubernetes_verdict.mode is probe.Mode.WHOLE
    try:
        programs = up.programs()
    except subprocess.CalledProcessError as fault:
        pytest.fail(f"build.sh ended with {fault.returncode}: see its stderr", pytrace=False)
    with Cluster(programs, tmp_path_factory.mktemp("kubernetes"), whole=whole) as cluster:
        classes.apply(cluster)
        crds.apply(cluster)
        yield cluster


@pytest.fixture(scope="session")
def whole(kubernetes_verdict: probe.Verdict) -> None:
    """Fails where no node can run; skips, with the reason, where that was asked for."""
    if kubernetes_verdict.mode is probe.Mode.WHOLE:
        return
    if kubernetes_verdict.chosen:
        pytest.skip(f"needs a node; {probe.CHOICE}={kubernetes_verdict.mode.value}")
    pytest.fail(f"needs a node.\n{kubernetes_verdict.summary}", pytrace=False)


@pytest.fixture(scope="session")
def cluster(whole: None, api_server: Cluster) -> Cluster:
    """The session's whole cluster."""
    return api_server


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    verdict = config.stash.get(_VERDICT, None)
    if verdict is not None:
        terminalreporter.section("kubernetes")
        terminalreporter.write_line(verdict.summary)
