"""A real Prometheus on loopback for the tests, and Debian's exporters."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.awaiting import wait_for


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def ask(url: str, query: str) -> list[dict[str, Any]]:
    """The series that Prometheus has now; none without an answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    address = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with opener.open(address, timeout=5) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    except OSError:
        return []
    return found


@contextmanager
def child(command: Sequence[object], log: Path) -> Iterator[None]:
    """A program that runs inside the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        process.wait()


@contextmanager
def prometheus(folder: Path, jobs: Mapping[str, int]) -> Iterator[str]:
    """The address of a Prometheus that scrapes ports of this machine every second. A scrape may
    take as long: that of a process exporter took 0.6 s where no core was idle."""
    port = free_port()
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
            for name, target in jobs.items()
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    command = (
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with child(command, folder / "prometheus.log"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def exporters(folder: Path, processes: str) -> Iterator[dict[str, int]]:
    """The ports of a node exporter, and of a process exporter for command lines that match."""
    ports = {"node": free_port(), "process": free_port()}
    groups = [{"name": "{{.Comm}};{{.PID}}", "cmdline": [processes]}]
    (folder / "processes.yml").write_text(json.dumps({"process_names": groups}))
    with (
        child(
            ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{ports['node']}"],
            folder / "node.log",
        ),
        child(
            [
                *("prometheus-process-exporter", "-config.path", folder / "processes.yml"),
                *("-web.listen-address", f"127.0.0.1:{ports['process']}"),
                # Each is work at each scrape, for series that no query asks for.
                *("-threads=false", "-gather-smaps=false"),
            ],
            folder / "process.log",
        ),
    ):
        yield ports


def scraped(url: str, query: str) -> None:
    """Wait for two samples of a series."""
    wait_for(lambda: bool(ask(url, f"rate({query}[10s])")))
