"""The counters of the storage's hosts and daemons, from the Prometheus that scrapes them.

After a trial each query of `leadline.formats.prometheus` is asked once, over the time of the trial:
no load during it. `prometheus.jsonl`: `{"at", "elapsed_s", "name", "query", "window_s",
"clock_offset_s", "chosen", "answer"}` with the answer as it came, or `{"at", "elapsed_s", "name",
"error"}`. Answers go into the archive without secrets, as all outputs of a trial do.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import orjson

from leadline.archive import layout
from leadline.connect.prometheus import PrometheusConnection
from leadline.formats.prometheus import queries
from leadline.plan.prometheus import StorageMonitoring
from leadline.probes.watches.base import Line, Lines, Watch, describe_error

# An answer takes milliseconds. All of them together delay the next trial by no more than this.
_ANSWER_S: Final = 3.0
_PATIENCE_S: Final = 10.0


class PrometheusWatch(Watch):
    """Notes when a trial begins, and asks Prometheus when it has ended. A server without an answer
    in time is not asked again before the next trial."""

    def __init__(self, source: StorageMonitoring, folder: Path) -> None:
        self._source = source
        self._lines = Lines(folder / layout.PROMETHEUS)
        self._began: float | None = None

    def start(self) -> None:
        if self._lines.open():
            self._began = time.monotonic()

    def stop(self) -> None:
        began, self._began = self._began, None
        if began is None:
            return
        try:
            with PrometheusConnection(self._source) as connection:
                self._ask_all(connection, time.monotonic() - began)
        # No failure may reach the trial.
        except Exception as error:
            self._write({"error": describe_error(error)})
        self._lines.close()

    def _ask_all(self, connection: PrometheusConnection, window_s: float) -> None:
        asked = time.time()
        _, server_time = connection.ask("time()", timeout_s=_ANSWER_S)
        # The time of the server is that between the request and its answer.
        offset_s = server_time.series[0].value[1] - (asked + time.time()) / 2
        ended_s = asked + offset_s
        deadline = time.monotonic() + _PATIENCE_S
        source = self._source
        for name, query in queries(window_s, source.namespaces, source.instances).items():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"the queries after {name!r} had no time left")
            sent = time.monotonic()
            try:
                content, _ = connection.ask(query, timeout_s=min(left_s, _ANSWER_S), at_s=ended_s)
                found: Line = {
                    "query": query,
                    "window_s": round(window_s, 3),
                    "clock_offset_s": round(offset_s, 3),
                    "chosen": source.instances is not None,
                    "answer": orjson.loads(content),
                }
            # One query may be refused or too large, and the others have an answer.
            except Exception as error:
                self._write({"name": name, "error": f"{name}: {describe_error(error)}"})
                if time.monotonic() - sent >= min(left_s, _ANSWER_S):
                    return
            else:
                self._write({"name": name, **found})

    def _write(self, line: Line) -> None:
        self._lines.write({**self._lines.stamp(), **line})
