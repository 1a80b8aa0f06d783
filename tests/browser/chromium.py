"""Pages in Debian's Chromium without its window, watched: their requests and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, Route

# The same engine as `chromium` at a third of the processor time: no windows, profiles and services.
CHROMIUM = Path("/usr/bin/chromium-headless-shell")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--renderer-process-limit=1",
)  # fmt: skip


class Watch:
    """What a page requested, and its errors."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []


@contextmanager
def opened(browser: Browser, path: Path, watch: Watch, width: int) -> Iterator[Page]:
    """The file in a window of `width` pixels; requests to anywhere else are stopped."""
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme="light")
    page = context.new_page()

    def stop(route: Route) -> None:
        if route.request.url.startswith(("file://", "blob:", "data:")):
            route.continue_()
        else:
            route.abort()

    context.route("**/*", stop)
    page.on("request", lambda one: watch.requests.append(one.url))
    page.on("console", lambda one: watch.errors.append(one.text))
    page.on("pageerror", lambda error: watch.errors.append(str(error)))
    page.on("dialog", lambda dialog: watch.errors.append(f"dialog {dialog.message}"))
    page.goto(path.as_uri())
    yield page
    context.close()
