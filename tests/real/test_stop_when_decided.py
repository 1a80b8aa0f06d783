"""A run that stops when decided, with real fio on two directories of which one is slower."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.archive.records import LookEnd
from leadline.archive.runs import list_runs
from leadline.judge import verified
from tests.real.conftest import Ended, environment

pytestmark = pytest.mark.real
Process = Callable[..., Ended]

# I/Os per second, far below what memory can do, so that the machine's own scatter plays no part.
RATES = {"fast": 200, "slow": 100}
WRAPPER = """#!/bin/sh
# The real fio, with a rate limit for the folder that it works in. The prefill has none.
rate=
case "$*" in
{cases}
esac
if [ -n "$rate" ]; then
  for job; do :; done
  sed -i "s/^time_based=1$/&\\nrate_iops=$rate/" "$job"
fi
exec {fio} "$@"
"""
WORKLOADS = """
  - {name: randread-4k, pattern: randread, block_size: 4k}
  - {name: randwrite-4k, pattern: randwrite, block_size: 4k}
"""


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: a busy disk does not always reach the rates."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="leadline-test-") as folder:
        yield Path(folder)


@pytest.fixture
def limited(tmp_path: Path, memory: Path) -> str:
    """A PATH whose fio limits the rate by directory."""
    fio = shutil.which("fio", path=environment(tmp_path)["PATH"])
    if fio is None:
        pytest.skip("no fio: stopping when decided is NOT tested on real I/O here")
    programs = tmp_path / "programs"
    programs.mkdir()
    cases = "\n".join(f"  *{memory}/{name}/*) rate={rate} ;;" for name, rate in RATES.items())
    wrapper = programs / "fio"
    wrapper.write_text(WRAPPER.format(cases=cases, fio=fio))
    wrapper.chmod(0o755)
    return f"{programs}:{environment(tmp_path)['PATH']}"


def verdicts(said: Ended) -> dict[tuple[str, str], str]:
    cells = json.loads(said.out)["cells"]
    return {
        (cell["workload"], cell["op"]): cell["verdict"]
        for cell in cells
        if cell["metric"] == "iops"
    }


@pytest.mark.slow
def test_a_decided_run_ends_early_with_the_verdicts_of_the_full_plan(
    process: Process, limited: str, memory: Path, tmp_path: Path
) -> None:
    for name in RATES:
        (memory / name).mkdir()
    targets = ", ".join(f"{{name: {name}, target: 'dir:{memory}/{name}'}}" for name in RATES)
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"targets: [{targets}]\nrepeats: 2\ndefaults: {{runtime: 500ms, size: 4M}}\n"
        f"workloads:{WORKLOADS}"
    )
    ended = process("run", plan, "--until-decided", PATH=limited)
    assert "error[" not in ended.err, ended.err
    (run,) = list_runs(tmp_path / "runs")
    # A machine that stalls in a trial makes a further look.
    look = run.looks[-1]
    assert look.end is LookEnd.DECIDED
    assert look.round == len(run.looks) + 1 <= 6
    told = f"look after round {look.round}: 2 of 2 rates decided; nothing is open: the run ends"
    assert told in ended.err
    assert 2 * 2 * len(RATES) <= len(run.trials) <= look.round * 2 * len(RATES)
    assert verified(run).problems == ()
    early = verdicts(process("compare", "fast", "slow", "--by", "target", "--format", "json"))

    ended = process("run", plan, "--repeats", "3", PATH=limited)
    assert "error[" not in ended.err, ended.err
    full = verdicts(process("compare", "fast", "slow", "--by", "target", "--format", "json"))
    assert early == full == {("randread-4k", "read"): "worse", ("randwrite-4k", "write"): "worse"}
