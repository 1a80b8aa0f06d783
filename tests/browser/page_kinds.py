"""One page of every kind, made by the program from recorded output; some of runs at the edge."""

from __future__ import annotations

from collections.abc import Callable
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
# One page of each shape, with every block. The others, of the same templates, are left to `make
# test-thorough`.
SHAPES = ("index", "run", "comparison", "blocks")
TEMPLATES = tuple(
    kind if kind in SHAPES else pytest.param(kind, marks=pytest.mark.thorough) for kind in KINDS
)


class Pages(dict[str, Path]):
    """The file of each kind, made when it is first looked up."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, kind: str) -> Path:
        if kind in SITE:
            self |= _of_site(self._folder)
        elif kind in _VERBS:
            self[kind] = _of_verb(self._folder, kind)
        else:
            self |= _written(self._folder, {kind: _of_document(self._folder, kind)})
        return self[kind]


def _of_site(folder: Path) -> dict[str, Path]:
    public = folder / "public"
    assert main(["site", str(_two_runs(folder)), "-o", str(public)]) == 0
    run, comparison = (sorted(public.glob(f"{kind}-*"))[0] for kind in ("run", "compare"))
    return dict(zip(SITE, (public / "index.html", run, comparison), strict=True))


def _of_verb(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.html"
    words = _VERBS[kind](folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        assert main([*map(str, words), "-o", str(path)]) in (0, 6)
    return path


def _two_runs(folder: Path) -> Path:
    """Two runs of two targets."""
    runs = folder / "runs"
    if runs.exists():
        return runs
    given = ("--profile", "quick", "--repeats", "2", "--runtime", "2s", "--ramp", "0")
    rest = ("--size", "64M", "--no-prefill", "--quiet", "--replay", str(RECORDED))
    where = []
    for name in ("fast", "slow"):
        (folder / name).mkdir()
        where += ["--target", f"{name}=dir:{folder / name}"]
    for name in ("before", "after"):
        assert main(["run", *given, *where, "--name", name, *rest, "--runs", str(runs)]) < 2
    return runs


def _studies(folder: Path) -> Path:
    """A published table of two clusters."""
    studies = folder / "studies"
    if not studies.exists():
        table = DUMPS / "imports" / "table" / "multizone-vs-singlezone.csv"
        runs = ("--run", "study", "--runs", str(studies))
        assert main(["import", "table", str(table), *runs]) < 2
    return studies


def _stream(folder: Path) -> Path:
    unpack(DUMPS / "layers" / "openzfs-mirror-log.tar.xz", folder / "streams")
    return next((folder / "streams").rglob("manifest.json")).parent


ZONES = ("study-single-zone", "study-multi-zone")
# The words of each call, which may make runs in a folder first.
_VERBS: dict[str, Callable[[Path], tuple[object, ...]]] = {
    "ranking": lambda at: ("rank", "--runs", _two_runs(at)),
    "recommendation": lambda at: ("recommend", "--for", "database", "--runs", _two_runs(at)),
    "layers": lambda at: ("layers", _stream(at)),
    "history": lambda at: ("history", _import_nights(at)),
    "inventory": lambda at: ("inventory", "--from-dir", CEPH),
    "differences": lambda at: (
        *("inventory", "--from-dir", CEPH, "--against", DUMPS / "ceph-single-az"),
    ),
    "kubernetes": lambda at: ("inventory", "--from-dir", CLUSTERS / "odf-multi-zone"),
    "published-ranking": lambda at: ("rank", ZONES[1], "--runs", _studies(at)),
    "one-trial": lambda at: ("report", *ZONES, "--runs", _studies(at)),
}


def _import_nights(folder: Path) -> Path:
    """Runs of twelve nights with a step, and of two with another block size."""
    nights = folder / "nights"
    for night in range(1, 15):
        rate = (4000 if night < 7 else 3000) + night % 3 * 40
        table = folder / f"night-{night:04}.csv"
        block = "8k" if night > 12 else "4k"
        table.write_text(
            "target,workload,op,block_size,iops,p99_ms\n"
            f"rep3,randwrite,write,{block},{rate},{8000 / rate:.3f}\n"
        )
        given = ("--run", table.stem, "--date", f"2026-03-{night:02}")
        assert main(["import", "table", str(table), *given, "--runs", str(nights)]) < 2
    return nights


def _of_document(folder: Path, kind: str) -> Document:
    curves = (*saturating(), *saturating(target="other", scale=1.7))
    two, other = ("disk", "memory"), ("archive", "scratch")
    match kind:
        case "scaling":
            return scaling_page(study_of(run_of(*curves)))
        case "scale-out":
            hosts = run_of(*curves, name="five-hosts", hosts=5)
            return scaling_page(study_of(run_of(*curves, name="three-hosts"), hosts))
        case "forecast":
            return predict_document(against())
        case "what-if":
            return predict_document(what_if())
        case "settings":
            return settings_document(some_study(folder))
        case "blocks":
            return document()
        case "refused-run":
            return _run_page(folder / "a", two, refused=True)
        case "refused-comparison":
            return _comparison_page(folder / "b", two, two, refused=True)
        case "nothing-in-common":
            return _comparison_page(folder / "c", two, other)
        case "failed-run":
            return _run_page(folder / "d", two, fails=True)
        case "names-run":
            return _run_page(folder / "e", NAMES)
        case "names-comparison":
            return _comparison_page(folder / "f", NAMES, NAMES)
    raise KeyError(kind)


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
