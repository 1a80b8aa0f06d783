"""Write docs/images/comparison-page.png, the picture of the README.

    uv run python scripts/picture.py

The picture shows the first screen of docs/examples/lab-single-zone-multi-zone.html, a page that
`leadline report` wrote of two real runs. Debian's Chromium renders the page.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "examples" / "lab-single-zone-multi-zone.html"
PICTURE = ROOT / "docs" / "images" / "comparison-page.png"
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
WIDTH, HEIGHT = 1280, 900
MAXIMUM_BYTES = 300_000


def render(page: Path) -> bytes:
    """Return the first screen of an HTML file as a PNG."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        window.goto(page.as_uri())
        picture = window.screenshot()
        browser.close()
    return picture


def main() -> None:
    """Write the picture."""
    picture = render(PAGE)
    if len(picture) > MAXIMUM_BYTES:
        raise SystemExit(f"{len(picture)} bytes, more than {MAXIMUM_BYTES}")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(picture)
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
