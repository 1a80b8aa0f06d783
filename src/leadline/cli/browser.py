"""Print pages with the Chromium or Chrome of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

from leadline import errors, files
from leadline.engines.process import supervise
from leadline.errors import LeadlineError
from leadline.runner.events import stop_on_signals

BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"),
    "headless_shell",
)
# A page of 1,000 trials takes a few seconds.
_BOUND_S = 120.0
_LADDER = ((signal.SIGTERM, 3.0), (signal.SIGKILL, 5.0))
_STDERR_LINES = 3

_OPTIONS = (
    *("--headless", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"),
    *("--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-breakpad"),
    # No name has an address and every connection goes to a port that nothing listens on. The page
    # itself allows no request (its Content-Security-Policy).
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=http://127.0.0.1:9"),
    "--proxy-bypass-list=<-loopback>",
    *("--disable-quic", "--no-pings"),
)
# Pixels of the first screen, and how many dots each has.
_WIDTH, _HEIGHT, _DENSITY = 1280, 900, 2


def find_browser() -> str | None:
    """The path of the first browser of this machine that can print."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def require_browser() -> str:
    """Raises LeadlineError (`browser-missing`)."""
    found = find_browser()
    if found is None:
        raise LeadlineError(
            errors.BROWSER_MISSING,
            "a PDF or a PNG needs Chromium or Chrome, and this machine has neither",
            context=[f"looked for {', '.join(BROWSERS)}"],
            hint="install it: apt-get install chromium; or write FILE.pdf-ready.html, open it in a "
            "browser and print it",
        )
    return found


def print_pdf(page: str) -> bytes:
    """The pages of paper of a page. Raises LeadlineError (`browser-missing`, `browser-failed`,
    `interrupted`)."""
    return _printed(page, "page.pdf", "--no-pdf-header-footer", "--print-to-pdf=page.pdf")


def print_png(page: str) -> bytes:
    """A picture of the first screen of a page. Raises as `print_pdf`."""
    return _printed(
        page,
        "page.png",
        f"--window-size={_WIDTH},{_HEIGHT}",
        f"--force-device-scale-factor={_DENSITY}",
        # On a busy machine a part of the page was not drawn yet.
        "--run-all-compositor-stages-before-draw",
        "--screenshot=page.png",
    )


def _printed(page: str, name: str, *options: str) -> bytes:
    """Run the browser in a folder of its own, which is removed on the way out.

    A killed Leadline (SIGKILL) takes the browser with it. Its folder stays until the next call or
    `leadline clean`.
    """
    program = require_browser()
    files.remove_abandoned()
    # Chromium makes a socket in its folder.
    folder = Path(tempfile.mkdtemp(prefix=files.prefix("page"), dir=files.SHORT))
    files.mark_scratch(folder)
    try:
        (folder / "page.html").write_text(page, "utf-8")
        command = [
            *("env", "-i", f"PATH={os.environ.get('PATH', os.defpath)}", "LANG=C.UTF-8"),
            *(f"HOME={folder}", f"TMPDIR={folder}", program, *_OPTIONS),
            # The sandbox of Chromium does not start as root. What it would contain is a page
            # without foreign content: its only script is Leadline's, allowed by its hash.
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            f"--user-data-dir={folder / 'profile'}",
            *options,
            (folder / "page.html").as_uri(),
        ]
        with stop_on_signals() as stop:
            ended = supervise(
                command,
                cwd=folder,
                stderr=folder / "stderr",
                bound_s=_BOUND_S,
                stop=stop,
                on_output=lambda _: None,
                ladder=_LADDER,
            )
        if ended.stopped:
            raise LeadlineError(errors.INTERRUPTED, "stopped while the browser printed the page")
        printed = folder / name
        if ended.exit_status != 0 or not printed.is_file():
            raise _failure(program, folder, past_bound=ended.past_bound)
        return printed.read_bytes()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _failure(program: str, folder: Path, *, past_bound: bool) -> LeadlineError:
    lines = (folder / "stderr").read_text("utf-8", "replace").strip().splitlines()
    sandbox = any("sandbox" in line.lower() for line in lines)
    return LeadlineError(
        errors.BROWSER_FAILED,
        f"{program} did not print the page within {_BOUND_S:.0f} s"
        if past_bound
        else f"{program} did not print the page",
        context=lines[-_STDERR_LINES:],
        hint="Chromium needs user namespaces for its sandbox: allow them, or print as a user who "
        "has them"
        if sandbox
        else "write FILE.pdf-ready.html, open it in a browser and print it",
    )
