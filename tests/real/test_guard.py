"""A run guarded by a real Prometheus, which reads the latency of another volume from this test."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from leadline.archive.records import RunStatus, TrialStatus
from leadline.archive.runs import find_run
from leadline.archive.verify import verify
from leadline.audit.registry import audit
from leadline.errors import LeadlineError
from leadline.formats.guard_readings import GuardReading
from leadline.metrics import Metric
from leadline.plan.guard import PrometheusLimit
from leadline.runner.guard import QueryLimit
from tests.awaiting import wait_for
from tests.real.conftest import Ended
from tests.real.monitoring import ask, prometheus

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("prometheus"),
        reason="no prometheus (apt-get install prometheus): NO real Prometheus is tested here",
    ),
]

METRIC = "volume_latency_seconds"
PLAN = """
targets: [{{name: pool, target: "dir:{folder}"}}]
workloads:
  - {{name: r, pattern: randread, block_size: 4k, iodepth: 16, size: 16M, runtime: {seconds}s}}
repeats: {repeats}
guard:
  iops: 300
  every: 1s
  silence: 10s
  prometheus:
    - {{name: other volumes, url: "{url}", query: "{query}", above: 0.02}}
"""


@dataclass(slots=True)
class Monitoring:
    """Prometheus at `url`; its samples have the latency of the volume `db`, `seconds`."""

    url: str
    seconds: float = 0.002

    def latency(self) -> float | None:
        """What Prometheus knows now; None without a sample."""
        found = ask(self.url, METRIC)
        return float(found[0]["value"][1]) if found else None


@pytest.fixture(scope="module")
def monitoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    folder = tmp_path_factory.mktemp("prometheus")

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f'{METRIC}{{volume="db"}} {found.seconds}\n'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    exporter = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    thread = threading.Thread(target=exporter.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        with prometheus(folder, {"volumes": exporter.server_port}) as url:
            found = Monitoring(url=url)
            wait_for(lambda: found.latency() is not None)
            yield found
    finally:
        exporter.shutdown()
        exporter.server_close()
        thread.join()


@pytest.fixture
def plan(tmp_path: Path, monitoring: Monitoring) -> Callable[..., Path]:
    def write(seconds: int, repeats: int, query: str = METRIC) -> Path:
        (tmp_path / "target").mkdir(exist_ok=True)
        path = tmp_path / "plan.yaml"
        path.write_text(
            PLAN.format(
                folder=tmp_path / "target",
                url=monitoring.url,
                seconds=seconds,
                repeats=repeats,
                query=query,
            )
        )
        monitoring.seconds = 0.002
        wait_for(lambda: (monitoring.latency() or 1) < 0.02)
        return path

    return write


def test_the_latency_of_another_volume_stops_the_run_which_goes_on_later(
    plan: Callable[..., Path],
    monitoring: Monitoring,
    process: Callable[..., Ended],
    started: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    runs = tmp_path / "runs"
    running = started("run", plan(4, 2))
    wait_for(lambda: list(runs.glob("*/trials/t0001*")) if runs.exists() else None)
    monitoring.seconds = 0.05
    _, err = running.communicate(timeout=120)
    assert running.returncode == 7, err
    assert "error[guard-stopped]: the guard's limit 'other volumes' is crossed: 0.05" in err
    assert "volume=db" in err
    assert "--resume" in err
    run = find_run("@latest", runs)
    assert run.manifest.status is RunStatus.GUARDED
    assert not any((tmp_path / "target").iterdir()), "what was made there is gone"
    crossed = [one for one in run.guard_readings if isinstance(one, GuardReading) and one.crossed]
    assert [one.value for one in crossed[:1]] == [0.05]
    assert crossed[0].labels["volume"] == "db"

    refused = process("run", "--resume", "@latest")
    assert (refused.status, "is crossed before the run" in refused.err) == (7, True), refused.err

    monitoring.seconds = 0.002
    wait_for(lambda: (monitoring.latency() or 1) < 0.02)
    resumed = process("run", "--resume", "@latest")
    assert resumed.status in (0, 1), resumed.err
    run = find_run("@latest", runs)
    assert run.complete
    assert verify(run).ok
    assert {trial.record.status for trial in run.trials} == {TrialStatus.COMPLETED}
    rates = [
        operation.metrics[Metric.IOPS] or 0.0
        for trial in run.trials
        if trial.derived is not None
        for operation in trial.derived.operations
    ]
    assert len(rates) == 2
    assert max(rates) < 310, "the budget is 300"
    # A slow disk may not reach its budget.
    assert min(rates) < 280 or "capped-by-budget" in {one.code for one in audit(run)}


def test_queries_that_give_no_reading_are_refused_before_the_run(
    plan: Callable[..., Path],
    monitoring: Monitoring,
    process: Callable[..., Ended],
    tmp_path: Path,
) -> None:
    for query, reason in (
        ("rate(", "it refuses the query"),
        (f"{METRIC}[5m]", "a matrix"),
        ("0 * vector(1) / 0", "only NaN"),
        ("no_such_metric", "no sample"),
    ):
        limit = PrometheusLimit(name="q", url=monitoring.url, query=query, above=1)
        with pytest.raises(LeadlineError, match=reason):
            QueryLimit(limit).read()
    said = process("run", plan(2, 1, "no_such_metric"))
    assert said.status == 3, said.err
    assert "error[guard-unreadable]" in said.err
    assert not (tmp_path / "runs").exists(), "nothing was begun"
    checked = process("check", plan(2, 1))
    assert checked.status == 0, checked.err
    assert "other volumes is 0.002 now, stops above 0.02: kept" in checked.err
