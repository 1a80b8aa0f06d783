"""Write the pictures of docs/images: the first screen of each kind of page in three forms.

    uv run python scripts/pictures.py

The pages are those of docs/examples; the other kinds are made from tables, archives and dumps in
tests/recorded. Debian's Chromium renders them
in a wide window in light and dark colours, and in one as narrow as a phone.
`tests/docs/test_pictures.py` checks that the list is complete.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from leadline.cli.main import main as leadline

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs" / "examples"
PICTURES = ROOT / "docs" / "images"
RECORDED = ROOT / "tests" / "recorded"
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
MAXIMUM_BYTES = 80_000
_MOST_COLOURS = (256, 128, 64, 32)

# Form -> colours, width and height of the window.
FORMS = {
    "light": ("light", 1280, 900),
    "dark": ("dark", 1280, 900),
    "phone": ("light", 390, 844),
}
# Kind of page -> its example.
KEPT = {
    "comparison": EXAMPLES / "lab-single-zone-multi-zone.html",
    "study": EXAMPLES / "multi-zone-study.html",
    "run": EXAMPLES / "openebs-and-rook-as-run.html",
    "ranking": EXAMPLES / "lab-ranking.html",
}
MADE = ("site", "recommendation", "scaling", "layers", "inventory", "differences")
KINDS = (*KEPT, *MADE)


def picture_path(kind: str, form: str) -> Path:
    """The file of a picture."""
    return PICTURES / f"{kind}-{form}.png"


@contextmanager
def made_pages() -> Iterator[dict[str, Path]]:
    """The pages that docs/examples does not keep, in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = ("--runs", str(folder / "runs"))
        table_of_study = "multizone-vs-singlezone"
        for table in (table_of_study, "openebs-and-rook-fio"):
            source = str(RECORDED / "imports" / "table" / f"{table}.csv")
            _call("import", "table", source, "--run", table, *runs)
        made = {kind: folder / f"{kind}.html" for kind in MADE}
        study = f"{table_of_study}-multi-zone"
        _call("recommend", study, "--for", "database", "-o", str(made["recommendation"]), *runs)
        _call("site", str(folder / "runs"), "-o", str(folder / "public"))
        _unpack(RECORDED / "layers" / "openzfs-mirror-log.tar.xz", folder / "layers")
        archive = next((folder / "layers").rglob("manifest.json")).parent
        _call("layers", str(archive), "-o", str(made["layers"]))
        _load_curves(folder / "study", made["scaling"])
        # The pages have the names of the folders as they are given.
        with chdir(RECORDED):
            ceph = ("inventory", "--from-dir", "ceph-multi-az")
            _call(*ceph, "-o", str(made["inventory"]))
            _call(*ceph, "--against", "ceph-single-az", "-o", str(made["differences"]))
        yield {**made, "site": folder / "public" / "index.html"}


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        # Debian 12's Python has no filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)


def _load_curves(folder: Path, page: Path) -> None:
    """Write the load curves of both clusters of a recorded study."""
    _unpack(RECORDED / "lab-study" / "study.tar.xz", folder)
    facts, runs = str(RECORDED / "lab-study" / "facts.yaml"), ("--runs", str(folder / "runs"))
    clusters = ("single-zone", "multi-zone")
    for cluster in clusters:
        results = ("import", str(folder / cluster / "results"), "--layout", "auto")
        dumps = ("--inventory", str(folder / cluster / "inventory"), "--facts", facts)
        _call(*results, "--run", cluster, "--cluster", cluster, *dumps, *runs)
    _call("scale", *clusters, "-o", str(page), *runs)


def _call(*words: str) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        status = leadline(list(words))
    # 1: the audit has findings.
    if status not in (0, 1):
        raise SystemExit(f"leadline {' '.join(words)}: exit status {status}\n{said.getvalue()}")


def render(browser: Browser, page: Path, form: str) -> bytes:
    """Return the first screen of a page as a PNG with a palette of at most MAXIMUM_BYTES."""
    colours, width, height = FORMS[form]
    window = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if colours == "dark" else "light",
    )
    window.goto(page.as_uri())
    picture = Image.open(io.BytesIO(window.screenshot())).convert("RGB")
    window.close()
    for count in _MOST_COLOURS:
        content = io.BytesIO()
        picture.quantize(count, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
        if len(content.getvalue()) <= MAXIMUM_BYTES:
            return content.getvalue()
    raise SystemExit(f"{page.name}, {form}: more than {MAXIMUM_BYTES} bytes")


def main() -> None:
    """Write every picture."""
    PICTURES.mkdir(exist_ok=True)
    with made_pages() as made, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        for kind, page in {**KEPT, **made}.items():
            for form in FORMS:
                content = render(browser, page, form)
                picture_path(kind, form).write_bytes(content)
                print(picture_path(kind, form).relative_to(ROOT), len(content), file=sys.stdout)
        browser.close()


if __name__ == "__main__":
    os.environ.pop("LEADLINE_RUNS", None)
    main()
