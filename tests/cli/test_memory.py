"""No input of up to 2 GiB makes a command take 512 MiB: the real command, watched from outside.

`uv run pytest -s -m thorough tests/cli/test_memory.py` prints what each case took.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.errors import Exit
from leadline.files import DOCUMENT, LARGEST_FILE_BYTES, MEMORY_BYTES, ReadingCost
from leadline.formats.importer import importer
from leadline.json_bins import COST
from tests.cli.conftest import recorded_output
from tests.conftest import every

pytestmark = pytest.mark.thorough
MIB = 1 << 20
MOST_MIB = 512
GIB_2 = 2 << 30
_SAMPLE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    status: int
    text: str
    peak_mib: float


def processes(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from processes(int(child))


def memory_kib(pid: int, file: str, field: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1])
    return 0


def watched(*arguments: object) -> Ended:
    """Run leadline. The peak is the largest that any process had, or all of them at one moment
    (pages that they share are counted once)."""
    command = [sys.executable, "-m", "leadline", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    peak_kib = 0
    over = threading.Event()

    def watch() -> None:
        nonlocal peak_kib
        while not over.is_set():
            alive = list(processes(process.pid))
            peaks = [memory_kib(pid, "status", "VmHWM:") for pid in alive]
            peak_kib = max(peak_kib, *peaks)
            # No sum is larger than that of the peaks: mostly it need not be computed.
            if len(alive) > 1 and sum(peaks) > peak_kib:
                sizes = [memory_kib(pid, "smaps_rollup", "Pss:") for pid in alive]
                peak_kib = max(peak_kib, sum(sizes))
            time.sleep(_SAMPLE_S)

    # Until the program is loaded, its peak is that of this process.
    program = Path(f"/proc/{process.pid}/cmdline")
    while process.poll() is None and b"leadline" not in program.read_bytes().split(b"\0"):
        time.sleep(_SAMPLE_S)
    watcher = threading.Thread(target=watch)
    watcher.start()
    text = process.communicate()[0].decode("utf-8", "replace")
    over.set()
    watcher.join()
    return Ended(status=process.returncode, text=text, peak_mib=peak_kib / 1024)


def bounded(what: str, *arguments: object) -> Ended:
    ended = watched(*arguments)
    sys.stdout.write(f"\n| {what} | {ended.peak_mib:.0f} MiB | exit {ended.status} |")
    assert ended.peak_mib < MOST_MIB, what
    assert ended.peak_mib > 20, "nothing was measured"
    assert ended.status not in (Exit.BUG, -6, -9, -11), ended.text[-2000:]
    assert "Traceback" not in ended.text
    return ended


def write(path: Path, unit: bytes, size: int, head: bytes = b"", tail: bytes = b"") -> Path:
    """Write a file of about `size` bytes in constant memory."""
    block = unit * max(1, MIB // len(unit))
    with path.open("wb") as stream:
        stream.write(head)
        for _ in range(size // len(block)):
            stream.write(block)
        stream.write(unit * (size % len(block) // len(unit)))
        stream.write(tail)
    return path


def sparse(path: Path) -> Path:
    with path.open("wb") as stream:
        stream.truncate(GIB_2)
    return path


def dearest(unit: bytes, cost: ReadingCost) -> int:
    """The size of the largest file of such units that is not refused."""
    return int(0.97 * MEMORY_BYTES * len(unit) / cost.compute(unit))


FIO = b'{"fio version": "fio-3.33", "jobs": ['


@pytest.mark.parametrize("verb", ["import", "audit"])
def test_files_of_two_gibibytes_are_refused_unread(verb: str, tmp_path: Path) -> None:
    path = sparse(tmp_path / "x.json")
    ended = bounded(f"{verb}, 2 GiB without content", *on_files(verb, path, tmp_path))
    assert ended.status == Exit.WRONG_REQUEST
    assert "x.json: cannot be read: it has 2 GiB, and 256 MiB are the most" in ended.text


def on_files(verb: str, path: Path, folder: Path, kind: str = "auto") -> tuple[object, ...]:
    if verb == "import":
        return ("import", kind, path, "--runs", folder / "runs", "--run", "x")
    return ("audit", path, "--kind", kind) if kind != "auto" else ("audit", path)


@pytest.mark.parametrize("unit", every(6, [b"[", b"\n", b"a", b"{", b"\x00", b"1 "]), ids=repr)
def test_500_mib_are_refused(unit: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", unit, 500 * MIB)
    ended = bounded(f"import, 500 MiB of {unit!r}", *on_files("import", path, tmp_path))
    assert ended.status == Exit.WRONG_REQUEST
    assert "it has 500 MiB, and 256 MiB are the most" in ended.text


def test_a_file_that_would_take_too_much_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", b"[],", 60 * MIB, head=FIO)
    ended = bounded("import, 60 MiB of empty lists", *on_files("import", path, tmp_path))
    assert ended.status == Exit.WRONG_REQUEST
    assert "reading it could take" in ended.text
    assert "360 MiB are the most; split it" in ended.text


# What each kind has most of where it takes most memory.
DEAREST: dict[str, tuple[str, str, bytes, bytes, bytes]] = {
    "empty lists": ("fio-json", "x.json", FIO, b"[],", b"[]]}"),
    "empty objects": ("fio-json", "x.json", FIO, b"{},", b"{}]}"),
    "objects with a secret": ("fio-json", "x.json", FIO, b'{"key":"secret-value-of-it"},', b"{}]}"),
    "one object": ("fio-json", "x.json", FIO + b'{"x":{', b'"12345" : 1,\n', b'"1":1}}]}'),
    "JSON cut within": ("fio-json", "x.json", FIO, b'{"jobname":"a"},', b""),
    "jobs": ("fio-json", "x.json", FIO, b'{"jobname":"a","error":0},', b'{"jobname":"a"}]}'),
    "one string": ("fio-json", "x.json", FIO + b'"', b"a", b'"]}'),
    "wide text": ("fio-json", "x.json", FIO + b'"\xf0\x9f\x98\x80 key', b"a", b'"]}'),
    "short lines": ("fio-text", "x.txt", b"", b"ab\n", b""),
    "rows": ("table", "x.csv", b"target,workload,op,iops\n", b"a,b,read,1\n", b""),
    "a row of many cells": ("table", "x.csv", b"target,workload,op,iops\n", b"a,", b"\n"),
    "lines of a log": ("fio-log", "x_iops.1.log", b"", b"1000, 100, 0, 0\n", b""),
    "text in a log": ("fio-log", "x_iops.1.log", b"1, 1, 0, 0\n", b"key = value-of-a-key\n", b""),
}  # fmt: skip


# Those that resemble a cheaper case, and millions of lines. The readers of all kinds are watched in
# small by tests/unit/formats/test_hostile.py, too.
DEEP = {"empty lists", "empty objects", "one object", "jobs", "one string"}
DEEP |= {"a row of many cells", "text in a log", "lines of a log"}


@pytest.mark.parametrize(
    "what",
    [pytest.param(what, marks=[pytest.mark.deep] if what in DEEP else []) for what in DEAREST],
)
def test_the_dearest_file_that_is_read_stays_below_the_bound(what: str, tmp_path: Path) -> None:
    kind, name, head, unit, tail = DEAREST[what]
    cost = importer(kind).cost
    size = min(dearest(unit, cost), LARGEST_FILE_BYTES - MIB)
    if what == "wide text":
        size = int(0.97 * MEMORY_BYTES / (1 + 4 * cost.text_copies))
    if what == "lines of a log":
        size = LARGEST_FILE_BYTES - MIB
    path = write(tmp_path / name, unit, size, head, tail)
    ended = bounded(
        f"import, {path.stat().st_size / MIB:.0f} MiB: {what}",
        *on_files("import", path, tmp_path, kind),
    )
    assert "reading it could take" not in ended.text, "it was refused unread"


@pytest.mark.parametrize(("jobs", "bins"), every(2, [(150, 10_000), (2000, 1_856)]))
def test_a_real_result_with_large_histograms_is_read(jobs: int, bins: int, tmp_path: Path) -> None:
    """22 and 59 MiB, nearly all of them bins; fio writes up to 1,856 for each latency."""
    whole = json.loads(recorded_output("randread-4k-qd1").read_bytes())
    (one,) = whole["jobs"]
    one["read"]["clat_ns"]["bins"] = {str(1000 + number): 3 for number in range(bins)}
    head, tail = json.dumps({**whole, "jobs": [0]}, indent=1).encode().split(b"0\n ]")
    unit = json.dumps(one, indent=1).encode()
    path = tmp_path / "x.json"
    path.write_bytes(head + b",".join([unit] * jobs) + b"]" + tail)
    size = path.stat().st_size / MIB
    ended = bounded(
        f"import, {size:.0f} MiB: {jobs:,} jobs with {bins:,} bins",
        *on_files("import", path, tmp_path),
    )
    assert ended.status == Exit.ANSWERED, ended.text


@pytest.mark.parametrize("count", every(2, [1000, 3000]))
def test_a_folder_of_many_results(count: int, tmp_path: Path) -> None:
    source = recorded_output("randread-4k-qd1").read_bytes()
    folder = tmp_path / "given"
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:05}.json").write_bytes(source.replace(b"randread", b"r%d" % number))
    ended = bounded(
        f"import, {count:,} files, {count * len(source) / MIB:.0f} MiB",
        *on_files("import", folder, tmp_path),
    )
    assert ended.status == Exit.ANSWERED, ended.text


# --- saved dumps ------------------------------------------------------------------------------

NODE = b"- apiVersion: v1\n  kind: Node\n  metadata:\n    name: a\n  spec: {podCIDR: b}\n"
FOLDERS: dict[str, Callable[[Path], object]] = {
    "2 GiB without content": lambda folder: sparse(folder / "status.json"),
    "60 MiB of brackets": lambda folder: write(folder / "status.json", b"[", 60 * MIB),
    "YAML: a list of 40 MiB": lambda folder: write(
        folder / "nodes.yaml", NODE, 40 * MIB, b"apiVersion: v1\nkind: List\nitems:\n"
    ),
    "YAML: one object of 40 MiB": lambda folder: write(
        folder / "node.yaml", b"  a: b\n", 40 * MIB, b"kind: Node\nx:\n"
    ),
    "JSON: the dearest list": lambda folder: write(
        folder / "nodes.json", b'{"kind":"Node","apiVersion":"v1"},',
        dearest(b'{"kind":"Node","apiVersion":"v1"},', DOCUMENT),
        b'{"kind":"List","items":[', b"{}]}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=[pytest.mark.deep] if what == "JSON: the dearest list" else [])
        for what in FOLDERS
    ],
)
def test_saved_dumps(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    FOLDERS[what](folder)
    bounded(f"inventory --from-dir, {what}", "inventory", "--from-dir", folder)


# --- archives, pages and plans --------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    source = recorded_output("randread-4k-qd1")
    watched("import", "auto", source, "--runs", runs, "--run", "x")
    return runs / "x"


RECORDS = {
    "manifest.json": (b'{"files":{', b'"a":{"sha256":"b","size_bytes":1},'),
    "plan.json": (b'{"trials":[', b"{},"),
    "trials/*/trial.json": (b'{"files":{', b'"a":{},'),
    "trials/*/derived.json": (b'{"operations":[', b"{},"),
    "imported/*.json": (FIO, b'{"jobname":"a"},'),
}


# Every sixth pair has each record, and each verb.
VERBS = ("verify", "show", "compare", "report", "scrub")


@pytest.mark.parametrize(("record", "verb"), every(6, itertools.product(RECORDS, VERBS)))
def test_records_of_an_archive(record: str, verb: str, archive: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(archive, tmp_path / "runs" / "x"))
    (place,) = run.glob(record)
    head, unit = RECORDS[record]
    cost = COST if record.startswith("imported") else DOCUMENT
    write(place, unit, dearest(unit, cost), head)
    further = {
        "compare": (run, "--runs", tmp_path / "runs"),
        "report": ("-o", tmp_path / "page.html"),
    }.get(verb, ())
    bounded(f"{verb}, {record} of {place.stat().st_size / MIB:.0f} MiB", verb, run, *further)
    sparse(place)
    bounded(f"{verb}, {record} of 2 GiB", verb, run, *further)


def test_a_page(archive: Path, tmp_path: Path) -> None:
    bounded("verify, a page of 2 GiB", "verify", sparse(tmp_path / "page.html"))
    write(tmp_path / "large.html", b"<p>a</p>\n", 40 * MIB)
    bounded("verify, a page of 40 MiB", "verify", tmp_path / "large.html")


def test_a_plan(tmp_path: Path) -> None:
    bounded("check, a plan of 2 GiB", "check", sparse(tmp_path / "plan.yaml"))
    write(tmp_path / "plan.yaml", b"[", 1_000_000)
    bounded("check, a plan of brackets", "check", tmp_path / "plan.yaml")
