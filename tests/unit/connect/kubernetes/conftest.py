from __future__ import annotations

from collections.abc import Iterator

import pytest

from leadline.connect.kubernetes import client
from tests.unit.connect.kubernetes.api_double import ApiDouble, certificate, refusal, serving


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def api(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiDouble]:
    """An API server that knows nothing before it is reported."""
    monkeypatch.setattr("leadline.connect.kubernetes.client._PAUSE_S", 0.02)
    monkeypatch.setattr(client.poll, "__defaults__", (0.02,))
    with serving(pair, lambda asked: refusal(404, f"{asked.path} not found")) as double:
        yield double
