"""PDF and PNG by the browser of the machine; nothing stays behind on any way out."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline import files
from leadline.cli import browser
from leadline.errors import LeadlineError
from leadline.report.render import html
from tests.awaiting import wait_for
from tests.golden.every_block import document

ENDLESS = "<!doctype html><script>for (;;) {}</script>"
CODE = """
import sys
from leadline import files
from leadline.cli.browser import print_pdf
files.SHORT = sys.argv[2]
print_pdf(sys.argv[1])
"""

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for the browser's files, of this test alone; its path is short."""
    folder = Path(tempfile.mkdtemp(prefix="ll-", dir="/tmp"))
    monkeypatch.setattr(files, "SHORT", str(folder))
    yield folder
    shutil.rmtree(folder)


def browsers(scratch: Path) -> list[int]:
    """Processes whose command names the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(scratch).encode() in command and b"--user-data-dir" in command:
            found.append(int(entry.name))
    return found


def texts_of(pdf: bytes) -> int:
    """How many operators of the pages show text."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    count = 0
    for stream in streams:
        try:
            count += len(re.findall(rb"\bT[jJ]\b", zlib.decompress(stream)))
        except zlib.error:
            continue
    return count


def test_a_pdf_has_the_pages_of_the_document(scratch: Path) -> None:
    pdf = browser.print_pdf(html.render(document(), ready_to_print=True))
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 1
    assert texts_of(pdf) > 200
    assert list(scratch.iterdir()) == []
    assert browsers(scratch) == []


def test_a_png_is_the_first_screen(scratch: Path) -> None:
    png = browser.print_png(html.render(document(), picture=True))
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", png[16:24]) == (2560, 1800)
    data = b"".join(
        png[at + 8 : at + 8 + struct.unpack(">I", png[at : at + 4])[0]]
        for at in (found.start() - 4 for found in re.finditer(rb"IDAT", png))
    )
    # More than one colour: something is drawn.
    assert len(set(zlib.decompress(data)[::997])) > 10
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("form", ["picture", "ready_to_print"])
def test_the_shapes_of_a_page_take_no_room(form: str) -> None:
    """An element without style is 150 pixels high, which left an empty strip on top."""
    page = html.render(
        document(), ready_to_print=form == "ready_to_print", picture=form == "picture"
    )
    assert '<svg class="defs"' in page
    assert re.search(r"\.defs\{[^}]*height:0", page)


def test_a_page_without_end_is_stopped_in_time(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "_BOUND_S", 4.0)
    with pytest.raises(LeadlineError) as raised:
        browser.print_pdf(ENDLESS)
    assert raised.value.kind.code == "browser-failed"
    assert "within 4 s" in raised.value.fact
    assert list(scratch.iterdir()) == []
    assert browsers(scratch) == []


def test_without_a_browser_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "BROWSERS", ("no-such-browser",))
    with pytest.raises(LeadlineError) as raised:
        browser.print_png("<p>")
    assert raised.value.kind.code == "browser-missing"
    assert "apt-get install chromium" in (raised.value.hint or "")


def test_a_browser_that_fails_is_an_error_with_its_last_lines(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho 'No usable sandbox!' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(browser, "BROWSERS", (str(program),))
    with pytest.raises(LeadlineError) as raised:
        browser.print_pdf("<p>")
    assert raised.value.context == ("No usable sandbox!",)
    assert "user namespaces" in (raised.value.hint or "")
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_browser_too(scratch: Path, number: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CODE, ENDLESS, str(scratch)], stderr=subprocess.DEVNULL
    )
    wait_for(lambda: browsers(scratch))
    time.sleep(1)
    child.send_signal(number)
    child.wait(timeout=60)
    wait_for(lambda: not browsers(scratch))
    left = list(scratch.iterdir())
    if number is signal.SIGKILL:
        # What nobody could remove is removed by the next call, as by `leadline clean`.
        assert len(left) == 1
        browser.print_png("<p>")
        left = list(scratch.iterdir())
    assert left == []


def test_the_browser_connects_to_nothing() -> None:
    """A server on this machine, which the page asks for a picture, gets no connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(1)
        port = server.getsockname()[1]
        browser.print_png(f'<!doctype html><img src="http://127.0.0.1:{port}/x"><p>text')
        with pytest.raises(TimeoutError):
            server.accept()
