import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "golden")]

from chromium import CHROMIUM, QUIET, Watch  # noqa: E402
from page_kinds import Pages  # noqa: E402

# A busy machine may take longer than the five seconds of the library.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        message = f"{CHROMIUM} is missing: apt-get install {CHROMIUM.name}"
        if os.environ.get("LEADLINE_TEST_WITHOUT_BROWSER") == "1":
            pytest.skip(message)
        pytest.fail(f"{message} (LEADLINE_TEST_WITHOUT_BROWSER=1 leaves these tests out)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(QUIET))
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page of each kind."""
    return Pages(tmp_path_factory.mktemp("kinds"))


@pytest.fixture
def watch() -> Watch:
    return Watch()
