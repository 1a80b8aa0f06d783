"""What is fuzzed: every importer, an import with its audit, an archive's records, a plan."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from fuzz.bundles import pack, unpack
from fuzz.parsers import fuzz_parsers, parser_seeds
from fuzz.properties import Broken, comparable, read
from leadline.analysis.figures import figures
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Session
from leadline.archive.verify import verify
from leadline.audit.registry import audit
from leadline.errors import LeadlineError
from leadline.formats.importer import KINDS, importer
from leadline.importing.archives import Labels, import_results
from leadline.importing.gather import HEAD_BYTES, gather
from leadline.plan.loader import Overrides, load_plan
from leadline.report.pages.run.page import run_document
from leadline.report.render.html import render as html
from leadline.report.render.junit import junit
from leadline.report.render.markdown import render as markdown
from leadline.report.render.terminal import render as terminal

ROOT = Path(__file__).resolve().parent.parent
_RECORDED = ROOT / "tests" / "recorded"
# What fuzzing found, in a folder for each target.
HOSTILE = _RECORDED / "imports" / "hostile"
_CORPUS = ROOT.parent / "shared" / "corpus"
_SHARED_MEMORY = Path("/dev/shm")
LARGEST_INPUT = 48 << 10
# One input in so many is read twice, to see that it gives the same results.
_READ_TWICE = 8
# A terminal would obey them; directions would make a name read as another one.
_NEVER_SHOWN = frozenset("\x00\x07\x08\x1b\x7f\x85\x9b\u202e\u2066")
_SESSION = Session(started_at="", hostname="", leadline_version="", python_version="")


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzTarget:
    """`test` raises where an input does what none may; `seeds` are inputs to begin with; `kinds`
    are the importers that it asks."""

    name: str
    kinds: tuple[str, ...] = ()
    test: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]


def importer_seeds(
    kind: str, *, shared: bool = True, largest: int = LARGEST_INPUT
) -> Iterator[bytes]:
    """Yield real files of a kind with at most `largest` bytes; a bundle of several is one input.
    `shared`: also those of ../shared, if it exists."""
    if kind == "cbt":
        yield from _cbt_seeds()
    places = [_RECORDED, _CORPUS] if shared and _CORPUS.is_dir() else [_RECORDED]
    for bundle in gather(kind, places).bundles:
        if any(HOSTILE in path.parents for path in bundle.files.values()):
            continue
        try:
            contents = bundle.contents()
        except OSError:
            continue
        if sum(map(len, contents.values())) <= largest:
            (first, *others) = contents
            yield pack(contents) if others or kind in _BY_NAME else contents[first]


# Kinds that use the name of a file.
_BY_NAME = ("fio-log",)
_CBT_RUN = "results/00000000/id-5b2e2a9f"
_CBT_CONFIG = b"cluster:\n  benchmark: librbdfio\n  pool_profile: replicated\n"


def _cbt_seeds() -> Iterator[bytes]:
    """Yield trees in CBT's layout, made of real files: no whole tree is recorded."""
    fio = f"{_CBT_RUN}/op_size-00004096/concurrent_procs-002/iodepth-016/randread"
    bench = f"{_CBT_RUN}/osd_ra-00004096/op_size-00065536/concurrent_ops-00000008/write"
    one, other = sorted((_RECORDED / "imports" / "cbt").glob("*.json"))
    text = _RECORDED / "ceph-bench" / "rados_bench_write_plain.txt"
    config = {f"{_CBT_RUN}/benchmark_config.yaml": _CBT_CONFIG}
    yield pack({f"{fio}/json_output.0.a": one.read_bytes()} | config)
    both = {
        f"{fio}/json_output.0.a": one.read_bytes(),
        f"{fio}/json_output.0.b": other.read_bytes(),
    }
    yield pack(both | config)
    yield pack({f"{bench}/output.0.a": text.read_bytes()} | config)


def _test_importer(kind: str, data: bytes) -> None:
    chosen = importer(kind)
    contents = unpack(data)
    for name, content in contents.items():
        if not isinstance(chosen.recognises(name, content[:HEAD_BYTES]), bool):
            raise Broken("recognises answers with something else than yes or no")
    bundles = chosen.bundles(tuple(contents))
    if not all(names and set(names) <= set(contents) for names in bundles):
        raise Broken(f"bundles made {bundles[:10]} of {list(contents)[:10]}")
    results = read(chosen, contents)
    if zlib.crc32(data) % _READ_TWICE == 0 and comparable(read(chosen, contents)) != comparable(
        results
    ):
        raise Broken("the same input gave other results")


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder in memory where there is one: an import syncs what it writes."""
    place = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="leadline-fuzz-", dir=place) as folder:
        yield Path(folder)


def judge(run: Run) -> None:
    """All that the verbs do with a run. Raises LeadlineError."""
    findings = audit(run)
    list(run.measurements())
    cells = figures(run, findings)
    document = run_document(run, cells, findings)
    paper = io.StringIO()
    terminal(Console(file=paper, width=100), document, trials=True, full=True)
    pages = (
        paper.getvalue(),
        markdown(document),
        html(document),
        junit([(run, findings)]),
    )
    for page in pages:
        page.encode()
        if _NEVER_SHOWN.intersection(page):
            raise Broken("a control character reaches who reads the answer")


def _test_chain(data: bytes) -> None:
    with _folder() as folder:
        given = folder / "given"
        given.mkdir()
        for number, (name, content) in enumerate(unpack(data).items()):
            # Importers other than CBT's use only the end of a name.
            end = re.sub(r"[^\w.]", "", name, flags=re.ASCII)[-60:]
            (given / f"{number}{end}").write_bytes(content)
        try:
            imported = import_results(
                gather("auto", [given]), folder / "runs", Labels(run="r"), _SESSION
            )
        except LeadlineError:
            return
        for run in imported.runs:
            judge(run)
            stored = verify(Run(run.path))
            if not stored.ok:
                raise Broken(f"a fresh import does not verify: {stored.problems[:3]}")


def _chain_seeds() -> Iterator[bytes]:
    for kind in KINDS:
        for number, seed in enumerate(importer_seeds(kind)):
            if number < 8:
                yield seed


_RECORDS = (layout.MANIFEST, layout.PLAN, layout.TRIAL_RECORD, layout.DERIVED, layout.FIO_OUTPUT)


def _sample(folder: Path) -> Path:
    """A small archive of an import, with a single trial."""
    source = _RECORDED / "quick" / "randread-4k-qd1" / "fio.json"
    gathered = gather("fio-json", [source])
    return import_results(gathered, folder, Labels(run="r"), _SESSION).runs[0].path


def _records(archive: Path) -> Mapping[str, Path]:
    trial = next((archive / layout.TRIALS).iterdir())
    raw = next((archive / layout.IMPORTED).rglob("*.json"))
    return {
        layout.MANIFEST: archive / layout.MANIFEST,
        layout.PLAN: archive / layout.PLAN,
        layout.TRIAL_RECORD: trial / layout.TRIAL_RECORD,
        layout.DERIVED: trial / layout.DERIVED,
        layout.FIO_OUTPUT: raw,
    }


def _test_archive(data: bytes) -> None:
    with _folder() as folder:
        archive = Path(shutil.copytree(_kept_sample(), folder / "r"))
        places = _records(archive)
        for name, content in unpack(data).items():
            if name in places:
                places[name].write_bytes(content)
        # It reports the problems of any archive, and raises no error.
        verify(Run(archive))
        with contextlib.suppress(LeadlineError):
            judge(Run(archive))


_samples: dict[str, Path] = {}


def _kept_sample() -> Path:
    """One sample for all inputs of this process; its folder goes when the process does."""
    if "archive" not in _samples:
        _samples["archive"] = _sample(Path(_stack.enter_context(_folder())))
    return _samples["archive"]


_stack = contextlib.ExitStack()


def _archive_seeds() -> Iterator[bytes]:
    places = _records(_kept_sample())
    whole = {name: place.read_bytes() for name, place in places.items()}
    yield pack(whole)
    for name, content in whole.items():
        yield pack({name: content})


def _test_plan(data: bytes) -> None:
    with _folder() as folder:
        path = folder / "plan.yaml"
        path.write_bytes(data)
        with contextlib.suppress(LeadlineError):
            load_plan(path, Overrides())


def _plan_seeds() -> Iterator[bytes]:
    for path in sorted(ROOT.rglob("*.yaml")):
        if ".venv" not in path.parts and path.stat().st_size < LARGEST_INPUT:
            yield path.read_bytes()


TARGETS: Mapping[str, FuzzTarget] = {
    entry.name: entry
    for entry in (
        *(
            FuzzTarget(
                name=kind,
                kinds=(kind,),
                test=partial(_test_importer, kind),
                seeds=partial(importer_seeds, kind),
            )
            for kind in KINDS
        ),
        FuzzTarget(name="chain", kinds=KINDS, test=_test_chain, seeds=_chain_seeds),
        FuzzTarget(name="archive", test=_test_archive, seeds=_archive_seeds),
        FuzzTarget(name="plan", test=_test_plan, seeds=_plan_seeds),
        FuzzTarget(name="parsers", test=fuzz_parsers, seeds=parser_seeds),
    )
}
