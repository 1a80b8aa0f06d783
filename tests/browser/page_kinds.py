"""One page of every kind, made by the program from recorded output; some of runs at the edge."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_builder import make_run, small_plan, some_findings
from every_block import document

from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, Side, two_runs
from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.archive.verify import verify
from leadline.cli.main import main
from leadline.findings import Finding, Severity
from leadline.report.document import Document
from leadline.report.pages.comparison.page import comparison_document
from leadline.report.pages.predict.page import predict_document
from leadline.report.pages.run.page import run_document
from leadline.report.pages.scaling.page import scaling_page
from leadline.report.pages.settings.page import settings_document
from leadline.report.render import html
from tests.conftest import RECORDED, unpack
from tests.unit.analysis.settings_runs import some_study
from tests.unit.inventory.kubernetes.conftest import CLUSTERS
from tests.unit.report.pages.predictions import against, what_if
from tests.unit.report.pages.scaling.studies import run_of, saturating, study_of

DUMPS = RECORDED.parent
CEPH = DUMPS / "ceph-multi-az"
HOSTILE = "<img src=x onerror=alert(1)>"
NAMES = ("disk", HOSTILE, "x" * 300, "אחסון-מהיר-2", "تخزين سريع")

SITE = ("index", "run", "comparison")
VERBS = ("ranking", "recommendation", "layers", "history", "inventory", "differences", "kubernetes")
STUDIES = (
    *("published-ranking", "scaling", "scale-out", "forecast", "what-if", "settings", "blocks"),
)
# Runs in which something is wrong with every result, or with every name.
EDGES = (
    "refused-run", "refused-comparison", "nothing-in-common", "failed-run", "one-trial",
    "names-run", "names-comparison",
)  # fmt: skip
KINDS = (*SITE, *VERBS, *STUDIES, *EDGES)
# The same, of which those that have the template of another are left to `make test-thorough`.
TEMPLATES = (
    *(kind for kind in KINDS if kind not in EDGES),
    *(pytest.param(kind, marks=pytest.mark.thorough) for kind in EDGES),
)


def make_pages(folder: Path) -> dict[str, Path]:
    """The file of each kind."""
    return {**_of_verbs(folder), **_of_documents(folder)}


def _of_verbs(folder: Path) -> dict[str, Path]:
    runs = ("--runs", str(folder / "runs"))
    given = ("--profile", "quick", "--repeats", "2", "--runtime", "2s", "--ramp", "0")
    rest = ("--size", "64M", "--no-prefill", "--quiet", "--replay", str(RECORDED), *runs)
    where = []
    for name in ("fast", "slow"):
        (folder / name).mkdir()
        where += ["--target", f"{name}=dir:{folder / name}"]
    for name in ("before", "after"):
        assert main(["run", *given, *where, "--name", name, *rest]) < 2
    assert main(["site", str(folder / "runs"), "-o", str(folder / "public")]) == 0
    table = DUMPS / "imports" / "table" / "multizone-vs-singlezone.csv"
    studies = ("--runs", str(folder / "studies"))
    assert main(["import", "table", str(table), "--run", "study", *studies]) < 2
    unpack(DUMPS / "layers" / "openzfs-mirror-log.tar.xz", folder / "streams")
    stream = next((folder / "streams").rglob("manifest.json")).parent
    _import_nights(folder)
    zones = ("study-single-zone", "study-multi-zone")
    calls: dict[str, tuple[object, ...]] = {
        "ranking": ("rank", *runs),
        "recommendation": ("recommend", "--for", "database", *runs),
        "layers": ("layers", stream),
        "history": ("history", folder / "nights"),
        "inventory": ("inventory", "--from-dir", CEPH),
        "differences": ("inventory", "--from-dir", CEPH, "--against", DUMPS / "ceph-single-az"),
        "kubernetes": ("inventory", "--from-dir", CLUSTERS / "odf-multi-zone"),
        "published-ranking": ("rank", zones[1], *studies),
        "one-trial": ("report", *zones, *studies),
    }
    written = {kind: folder / f"{kind}.html" for kind in calls}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for kind, words in calls.items():
            assert main([*map(str, words), "-o", str(written[kind])]) in (0, 6)
    run, comparison = (
        sorted((folder / "public").glob(f"{kind}-*"))[0] for kind in ("run", "compare")
    )
    site = (folder / "public" / "index.html", run, comparison)
    return {**dict(zip(SITE, site, strict=True)), **written}


def _import_nights(folder: Path) -> None:
    """Runs of twelve nights with a step, and of two with another block size."""
    for night in range(1, 15):
        rate = (4000 if night < 7 else 3000) + night % 3 * 40
        table = folder / f"night-{night:04}.csv"
        block = "8k" if night > 12 else "4k"
        table.write_text(
            "target,workload,op,block_size,iops,p99_ms\n"
            f"rep3,randwrite,write,{block},{rate},{8000 / rate:.3f}\n"
        )
        given = ("--run", table.stem, "--date", f"2026-03-{night:02}")
        runs = ("--runs", str(folder / "nights"))
        assert main(["import", "table", str(table), *given, *runs]) < 2


def _of_documents(folder: Path) -> dict[str, Path]:
    curves = (*saturating(), *saturating(target="other", scale=1.7))
    hosts = (run_of(*curves, name="three-hosts"), run_of(*curves, name="five-hosts", hosts=5))
    two, other = ("disk", "memory"), ("archive", "scratch")
    made: dict[str, Document] = {
        "scaling": scaling_page(study_of(run_of(*curves))),
        "scale-out": scaling_page(study_of(*hosts)),
        "forecast": predict_document(against()),
        "what-if": predict_document(what_if()),
        "settings": settings_document(some_study(folder)),
        "blocks": document(),
        "refused-run": _run_page(folder / "a", two, refused=True),
        "refused-comparison": _comparison_page(folder / "b", two, two, refused=True),
        "nothing-in-common": _comparison_page(folder / "c", two, other),
        "failed-run": _run_page(folder / "d", two, fails=True),
        "names-run": _run_page(folder / "e", NAMES),
        "names-comparison": _comparison_page(folder / "f", NAMES, NAMES),
    }
    return _written(folder, made)


def make_large_pages(folder: Path) -> dict[str, Path]:
    """The pages of 200 targets."""
    many = tuple(f"pool-{number:03d}" for number in range(200))
    made = {
        "many-run": _run_page(folder / "g", many, repeats=1),
        "many-comparison": _comparison_page(folder / "h", many, many, repeats=1),
    }
    return _written(folder, made)


def _written(folder: Path, made: dict[str, Document]) -> dict[str, Path]:
    written = {kind: folder / f"{kind}.html" for kind in made}
    for kind, one in made.items():
        written[kind].write_text(html.render(one), "utf-8")
    return written


def _run_page(
    folder: Path,
    names: tuple[str, ...],
    *,
    repeats: int = 3,
    refused: bool = False,
    fails: bool = False,
) -> Document:
    plan = small_plan(names, repeats=repeats)
    run = make_run(folder, plan, fails=lambda target, workload, block: fails)
    findings = _refusals(run) if refused else some_findings(*names[:2])
    return run_document(run, figures(run, findings), findings, verify(run))


def _comparison_page(
    folder: Path,
    before: tuple[str, ...],
    after: tuple[str, ...],
    *,
    repeats: int = 3,
    refused: bool = False,
) -> Document:
    runs = [
        make_run(folder, small_plan(names, repeats=repeats), run_id=name)
        for name, names in (("before", before), ("after", after))
    ]

    def judged(run: Run) -> tuple[object, tuple[Finding, ...]]:
        findings = _refusals(run) if refused else ()
        return figures(run, findings), findings

    sides: tuple[Side, Side] = two_runs(*runs, judged)  # type: ignore[arg-type]
    return comparison_document(compare(*sides, by=By.RUN))


def _refusals(run: Run) -> tuple[Finding, ...]:
    """An error about every cell."""
    return tuple(
        Finding(
            code="cache-served-reads", severity=Severity.ERROR, target=cell.target,
            workload=cell.workload.name, level=cell.level,
            evidence={"device_read_bytes": 0.0, "application_read_bytes": 1e9},
            message="The device read 0 B of 1.0 GB.", remedy="Use direct I/O.",
        )
        for cell in run.plan.cells
    )  # fmt: skip
