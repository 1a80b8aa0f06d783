"""The clocks of a fleet's hosts, while the clock of this machine is set."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.connect.shell import CommandResult
from leadline.engines.fio import fleet

AHEAD_S = 5.0


class FixedShell:
    """A host whose clock is AHEAD_S ahead of the true time."""

    name = "host"

    def run(self, command: str, **options: Any) -> CommandResult:
        true_ns = int((TRUE() + AHEAD_S) * 1e9)
        answer = f"fio-3.33\n4\n{true_ns}\n".encode()
        return CommandResult(stdout=answer, stderr=b"", status=0)


TRUE = time.time


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_a_query_in_which_the_clock_is_set_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    """The clock is set in the first query, and back between it and the second."""
    looks = itertools.count()
    monkeypatch.setattr(time, "time", lambda: TRUE() + (step_s if next(looks) == 1 else 0.0))
    found = fleet._query_host(SimpleNamespace(name="host", shell=FixedShell()))  # type: ignore[arg-type]
    assert found.clock_offset_s == pytest.approx(AHEAD_S, abs=1)
    assert 0 <= found.clock_uncertainty_s < 1
