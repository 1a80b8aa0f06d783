"""What is fuzzed: every reader of foreign input; tests/architecture/test_fuzzed.py keeps it so."""

from __future__ import annotations

import base64
import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import zstandard
from rich.console import Console

from fuzz.bundles import pack, unpack
from fuzz.parsers import fuzz_parsers, parser_seeds
from fuzz.properties import Broken, comparable, read
from leadline.analysis.figures import figures
from leadline.analysis.gate import load_policy
from leadline.analysis.objectives import load_use_case
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Session
from leadline.archive.verify import verify
from leadline.audit.registry import audit
from leadline.engines.fio.job_check import FROM_STDIN, LOOK, find_strays
from leadline.errors import LeadlineError
from leadline.formats.importer import KINDS, importer
from leadline.importing import unpacking
from leadline.importing.archives import Labels, import_results
from leadline.importing.gather import HEAD_BYTES, gather
from leadline.inventory.ceph.crush_tree import Addition, plan_addition
from leadline.inventory.ceph.dumps import parse as parse_dump
from leadline.inventory.ceph.pg_placement import (
    PoolPlacement,
    PoolPlacements,
    describe_state,
    read_osd_map,
)
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.kubernetes.folder import read_folder
from leadline.inventory.redaction import find_redactions, redact_document
from leadline.inventory.system import system_of
from leadline.lab.state import STATE, read_state
from leadline.plan.facts import load_facts
from leadline.plan.job_file import Place, fio_options, read_job_file, write_job_file
from leadline.plan.lab import LabOverrides, load_description
from leadline.plan.loader import Overrides, load_plan
from leadline.report.answers.placement import pools_placement_output
from leadline.report.answers.systems import inventory_output
from leadline.report.page_check import read_page
from leadline.report.pages.inventory import inventory_document
from leadline.report.pages.inventory_kubernetes import kubernetes_document
from leadline.report.pages.placement import placement_document
from leadline.report.pages.run.page import run_document
from leadline.report.render.html import render as html
from leadline.report.render.junit import junit
from leadline.report.render.markdown import render as markdown
from leadline.report.render.terminal import render as terminal
from tests import hostile_job_files

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


def _use_seeds() -> Iterator[bytes]:
    yield b"needs:\n- {name: w, op: write, random: true, largest: 16k, weights: {p99: 3}}\n"
    yield from _plan_seeds()


def _test_folder(data: bytes) -> None:
    """Saved dumps of a cluster, read as `leadline inventory` reads them."""
    with _folder() as folder:
        for name, content in unpack(data).items():
            given = re.sub(r"[^\w.=-]", "", name, flags=re.ASCII)[-60:].lstrip(".")
            (folder / (given or "cluster.yaml")).write_bytes(content)
        alone = folder / "inventory.json"
        try:
            system = system_of(read_folder(alone if alone.exists() else folder).dumps)
        except LeadlineError:
            return
        document = (
            kubernetes_document(system.kubernetes, "fuzzed")
            if system.kubernetes
            else inventory_document(system.ceph, "fuzzed")
            if system.ceph
            else None
        )
        if document is None:
            raise Broken("a system that is neither Ceph nor Kubernetes")
        for page in (markdown(document), html(document)):
            if _NEVER_SHOWN.intersection(page):
                raise Broken("a control character reaches who reads the answer")


def _folder_seeds() -> Iterator[bytes]:
    """Yield each recorded dump by itself, the small ones of a cluster together, and YAML."""
    for folder in sorted(_RECORDED.glob("ceph-*")):
        paths = sorted(folder.glob("*.json"))
        small = {path.name: path.read_bytes() for path in paths if path.stat().st_size < 6000}
        if small:
            yield pack(small)
        dumps = {path.name: path.read_bytes() for path in paths}
        with contextlib.suppress(LeadlineError):  # some folders hold other files
            answer = inventory_output(cluster_inventory(dumps), "seed")
            yield pack({"inventory.json": answer.model_dump_json(by_alias=True).encode()})
        for path in paths:
            if path.stat().st_size < LARGEST_INPUT:
                yield pack({path.name: path.read_bytes()})
    for path in sorted((ROOT / "tests").rglob("*.yaml")):
        if path.stat().st_size < LARGEST_INPUT and b"apiVersion" in path.read_bytes():
            yield pack({"cluster.yaml": path.read_bytes()})


def _test_redaction(data: bytes) -> None:
    clean = redact_document(data)
    # A key from which a secret was removed can look like the name of a secret, once.
    twice = redact_document(clean)
    if redact_document(twice) != twice:
        raise Broken("a third redaction changes the text again")
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(data)
        try:
            json.loads(clean)
        except ValueError as error:
            raise Broken("JSON is none after its redaction") from error
    list(find_redactions(clean))


def _test_osd_map(data: bytes) -> None:
    """An OSD map and its CRUSH map as Ceph's tools print them, and the placement of no PG."""
    files = unpack(data)
    try:
        osd_dump, crush = (parse_dump(name, files.get(name, b"")) for name in _MAPS)
        osd_map = read_osd_map(osd_dump, crush)
        roots = {pool.rule.root for pool in osd_map.pools if pool.rule and pool.rule.root}
        for level in ("host", "zone"):
            addition = Addition(level=level, count=1)
            new = plan_addition(osd_map.tree, roots, addition, osd_map.first_free_osd)
            if len({osd.osd for osd in new}) != len(new):
                raise Broken("two new OSDs have the same id")
    except LeadlineError:
        return
    pools = tuple(
        PoolPlacement(pool=pool, now=describe_state(pool, (), osd_map.osds, osd_map.tree))
        for pool in osd_map.pools
    )
    placements = PoolPlacements(
        fsid=osd_map.fsid,
        epoch=osd_map.epoch,
        pools=pools,
        addition=addition,
        new_osds=new,
        pg_num=None,
        temporary=osd_map.temporary,
        hosts=osd_map.tree.hosts(),
    )
    pools_placement_output(placements, "fuzzed").to_json()
    if _NEVER_SHOWN.intersection(markdown(placement_document(placements, "fuzzed"))):
        raise Broken("a control character reaches who reads the answer")


_MAPS = ("dump", "crush")


def _osd_map_seeds() -> Iterator[bytes]:
    folder = _RECORDED / "pg-maps"
    for name in ("plain", "classes"):
        files = {kind: (folder / f"{name}-{kind}.json").read_bytes() for kind in _MAPS}
        yield pack({kind: content + b"\n" for kind, content in files.items()})


_SECRETS = (
    b'{"name": "rgw_keystone_admin_password", "value": "x1y2"}\n',
    b'[{"key": "mgr/dashboard/jwt", "password": "a", "password": {"b": ["c", 1, null]}}]\n',
    b"secret = a b c\nkey: |\n  -----BEGIN PRIVATE KEY-----\n  AAAA\n  -----END PRIVATE KEY-----\n",
    b"https://user:pass@host:80/x?token=abc --password x Authorization: Bearer abcdefghij\n",
)


def _redaction_seeds() -> Iterator[bytes]:
    yield from _SECRETS
    yield from _folder_seeds()


_PAGE_AROUND = (
    '<meta name="generator" content="Leadline 0.2.0">\n<script type="text/plain" '
    'id="download-1" data-name="x" data-type="application/json">{packed}</script>\n'
)


def _test_page(data: bytes) -> None:
    """The answer in a page is what is fuzzed: behind compression nothing else reaches it."""
    content = gzip.compress(data, 1, mtime=0)
    packed = base64.b64encode(content).decode()
    page = _PAGE_AROUND.format(packed=packed)
    for html_text in (page, data.decode("utf-8", "replace")):
        with contextlib.suppress(LeadlineError):
            read_page("page.html", html_text)


def _page_seeds() -> Iterator[bytes]:
    for path in sorted((ROOT / "tests").rglob("*.json")):
        if path.stat().st_size < LARGEST_INPUT and b'"leadline/' in path.read_bytes()[:400]:
            yield path.read_bytes()


def _test_small_text(read_file: Callable[[Path], object], data: bytes) -> None:
    with _folder() as folder:
        path = folder / "given"
        path.write_bytes(data)
        with contextlib.suppress(LeadlineError):
            read_file(path)


def _load_lab(path: Path) -> object:
    """As the state of a lab, and as the description of one."""
    shutil.copy(path, path.parent / STATE)
    with contextlib.suppress(LeadlineError):
        read_state(path.parent)
    return load_description(path, LabOverrides())


def _job_file_seeds() -> Iterator[bytes]:
    for path in sorted(ROOT.rglob("*.fio")):
        if ".venv" not in path.parts:
            yield path.read_bytes()
    yield b"[global]\nbs=4k\nruntime=10s\ntime_based\n[a]\nrw=randread\nsize=1g\nnumjobs=4\n"
    for text, _ in hostile_job_files.refused().values():
        yield text.encode()
    for text in hostile_job_files.kept().values():
        yield text.encode()
    # All options that are allowed, with a value that most of them take.
    for options in fio_options().allowed.values():
        yield b"[a]\nruntime=1\n" + b"".join(f"{option}=1\n".encode() for option in options)


def _test_job_file(data: bytes) -> None:
    """fio opens nothing but the target, whatever the text: a folder, then a device."""
    with _folder() as folder:
        path = folder / "given"
        path.write_bytes(data)
        for place in (Place.FILES, Place.DEVICE):
            try:
                text = write_job_file(read_job_file(path), place)
            except LeadlineError:
                continue
            target = str(folder / "target")
            where = "directory" if place is Place.FILES else "filename"
            ended = subprocess.run(
                ["fio", *LOOK, f"--{where}={target}", FROM_STDIN],
                cwd=folder,
                input=text.encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "X": ""},
                timeout=60,
            )
            output = ended.stdout.decode("utf-8", "replace")
            if strays := find_strays(output, place, target):
                raise Broken(f"fio would leave the {place.value}: {strays[0][:100]}")
            if [entry for entry in folder.iterdir() if entry != path]:
                raise Broken(f"fio made files of the {place.value}")
            for name in re.findall(r"^\[(.*)\]$", text, re.MULTILINE):
                if "/" in name or name.startswith("."):
                    raise Broken("a section is a path")


# Limits for one input, so that what goes beyond them is found here.
_MOST_UNPACKED = unpacking.LARGEST_FILE_BYTES + (1 << 20)


def _test_unpacking(data: bytes) -> None:
    """Whatever is packed is written below the folder, and named below its archive."""
    with _folder() as folder:
        given, scratch = folder / "given.packed", folder / "scratch"
        scratch.mkdir()
        given.write_bytes(data)
        unpacker = unpacking.Unpacker(folder=scratch)
        found = list(unpacker.unpack("study.tar.gz", given))
        for name, path in found:
            if path != given and path.parent != scratch:
                raise Broken(f"{name!r} is written to {path}")
            parts = name.split("/")
            if ".." in parts or name.startswith("/") or "\0" in name:
                raise Broken(f"the name {name!r} leads out")
            if path.is_symlink() or not path.is_file():
                raise Broken(f"{name!r} is no regular file")
        written = sum(path.stat().st_size for path in scratch.rglob("*"))
        if written > max(_MOST_UNPACKED, unpacking.LARGEST_RATIO * len(data)):
            raise Broken(f"{len(data)} bytes became {written}")
        if not found and not unpacker.refused:
            _test_empty(data)
        if sorted(folder.iterdir()) != [given, scratch]:
            raise Broken("a file beside the folder")


def _test_empty(data: bytes) -> None:
    """Only an archive without a file may yield nothing without a reason."""
    opened = io.BytesIO(data)
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(opened) as archive:
        if not [member for member in archive.infolist() if not member.is_dir()]:
            return
        raise Broken("a zip with files yields nothing, and no reason")


def _unpacking_seeds() -> Iterator[bytes]:
    """Yield one small result and a study of two in each way to pack them."""
    text = (_RECORDED / "imports" / "kbench" / "kbench-README.md").read_bytes()[:2000]
    tar, packed = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name in ("rep3/1.txt", "../out", "/root", "d/2.txt"):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("rep3/1.txt", "../out", "d/"):
            archive.writestr(name, text)
    plain = (text, tar.getvalue(), packed.getvalue())
    yield from plain
    pack = zstandard.ZstdCompressor().compress
    for compress in (gzip.compress, bz2.compress, lzma.compress, pack):
        yield from map(compress, plain)
        yield compress(compress(compress(compress(text))))
    yield gzip.compress(bytes(1 << 20))


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
        FuzzTarget(name="policy", test=partial(_test_small_text, load_policy), seeds=_plan_seeds),
        FuzzTarget(name="facts", test=partial(_test_small_text, load_facts), seeds=_plan_seeds),
        FuzzTarget(name="use", test=partial(_test_small_text, load_use_case), seeds=_use_seeds),
        FuzzTarget(name="parsers", test=fuzz_parsers, seeds=parser_seeds),
        FuzzTarget(name="folder", test=_test_folder, seeds=_folder_seeds),
        FuzzTarget(name="unpacking", test=_test_unpacking, seeds=_unpacking_seeds),
        FuzzTarget(name="osd-map", test=_test_osd_map, seeds=_osd_map_seeds),
        FuzzTarget(name="redaction", test=_test_redaction, seeds=_redaction_seeds),
        FuzzTarget(name="page", test=_test_page, seeds=_page_seeds),
        FuzzTarget(name="lab", test=partial(_test_small_text, _load_lab), seeds=_plan_seeds),
        FuzzTarget(name="job-file", test=_test_job_file, seeds=_job_file_seeds),
    )
}
