"""A double of Prometheus: the instant query of its HTTP API, with answers of a test.

`tests/real/test_guard.py` has the same limits on a real Prometheus.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

OK = 200


def vector(**values: str) -> dict[str, Any]:
    """An answer with one series for each volume."""
    result = [
        {"metric": {"__name__": "latency", "volume": name}, "value": [1795599572.583, value]}
        for name, value in values.items()
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


class PrometheusDouble:
    """Answers every query with `answer`, or with what it returns for the query, after `wait_s`;
    `queries` and `times` are those that were asked, `headers` the last request's."""

    def __init__(self) -> None:
        self.status = OK
        self.answer: object = vector(db="0.002")
        self.wait_s = 0.0
        self.queries: list[str] = []
        self.times: list[str] = []
        self.headers: dict[str, str] = {}
        self.url = ""

    def set(self, **values: str) -> None:
        self.answer = vector(**values)


@contextmanager
def prometheus_double(address: str = "127.0.0.1") -> Iterator[PrometheusDouble]:
    double = PrometheusDouble()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            assert asked.path == "/api/v1/query"
            given = parse_qs(asked.query)
            double.queries += given["query"]
            double.times += given.get("time", [""])
            double.headers = dict(self.headers)
            time.sleep(double.wait_s)
            content = double.answer(*given["query"]) if callable(double.answer) else double.answer
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(double.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # a client that did not wait
                self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer((address, 0), Handler)
    double.url = f"http://{address}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
