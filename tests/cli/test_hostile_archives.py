"""Archives, files and plans from strangers: every verb ends with an answer or an error, in bounded
time and memory, and nothing that lies outside an archive comes into any output."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from leadline.cli.main import main
from leadline.errors import Exit
from leadline.report.page_check import read_page
from tests.cli.conftest import Leadline
from tests.conftest import RECORDED, Said, every

pytestmark = pytest.mark.thorough

SECRET = "outside-7431"
# What no answer may hold: a terminal would obey it, or a browser.
ESCAPE = "\x1b[31mred"
MARKUP = "<script>alert(7431)</script>"
LARGE = 2 << 30
# So much that a verb which reads 2 GiB cannot hide it, and so little that none needs it.
MEMORY = 400 << 20
FORMS = ("html", "md", "json", "csv")


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """A verb that waits for ever (a pipe without a writer) fails its test."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise AssertionError("the verb does not come to an end")

    before = signal.signal(signal.SIGALRM, too_long)
    # Again and again: what it raises may be told as a bug of ours, and the next verb waits, too.
    signal.setitimer(signal.ITIMER_REAL, 600, 2)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two archives: `own`, a run on recorded output, and `imported`, of another's file."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "target").mkdir()
    runs = ("--runs", str(folder / "runs"))
    given = ("--profile", "quick", "--repeats", "1", "--runtime", "2s", "--ramp", "0")
    where = ("--target", f"dir:{folder / 'target'}", "--size", "64M", "--no-prefill", "--quiet")
    assert main(["run", *given, *where, "--replay", str(RECORDED), "--name", "own", *runs]) < 2
    (own,) = (folder / "runs").iterdir()
    own.rename(folder / "runs" / "own")
    file = RECORDED / "randread-4k-qd1" / "fio.json"
    assert main(["import", "fio", str(file), "--run", "imported", *runs]) == 0
    return folder / "runs"


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


# What reads an archive: each verb, and the forms of their answers.
VERBS = (
    ("list", "--format", "json"),
    ("show", "{run}"),
    ("audit", "{run}"),
    ("verify", "{run}"),
)
FORMATS = (
    ("list",),
    *((verb, "{run}", "--format", "json") for verb in ("show", "audit", "verify")),
    ("audit", "{run}", "--format", "junit"),
    ("audit", "{run}", "--format", "markdown"),
    ("show", "{run}", "--format", "markdown"),
    ("show", "{run}", "--format", "csv"),
)


def read(leadline: Leadline, run: str, tmp_path: Path) -> dict[str, Said]:
    """What each verb that reads an archive says of `run`, once: how a file is read does not depend
    on the form of the answer."""
    return answered(leadline, run, tmp_path, VERBS, FORMS[:1])


def judged(leadline: Leadline, run: str, tmp_path: Path) -> dict[str, Said]:
    """What every verb that reads an archive says of `run`, in every form."""
    return answered(leadline, run, tmp_path, (*VERBS, *FORMATS), FORMS)


def answered(
    leadline: Leadline,
    run: str,
    tmp_path: Path,
    verbs: Sequence[Sequence[str]],
    forms: Sequence[str],
) -> dict[str, Said]:
    """The answers of verbs, and of reports as if they were printed.

    None ends by a bug of ours, or with what lies outside the archive.
    """
    said = {}
    for words in verbs:
        call = [word.format(run=run) for word in words]
        said[" ".join(word for word in words if word not in ("{run}", "--format"))] = leadline(
            *call
        )
    for form in forms:
        page = tmp_path / f"page.{form}"
        told = leadline("report", run, "-o", page, "--force")
        text = page.read_text() if told.status == 0 else ""
        said[f"report {form}"] = Said(told.status, told.out + text, told.err)
    for verb, one in said.items():
        assert one.status != Exit.BUG, f"{verb}: {one.err}"
        assert SECRET not in one.out + one.err, verb
        # What JSON escapes itself is a control character of ASCII.
        hidden = "\x1b\x00" if "json" in verb else "\x1b\x00\u202e\x85\u2028"
        found = set(hidden) & set(one.out + one.err)
        assert not found, f"{verb} prints {found}"
    assert MARKUP not in said["report html"].out
    return said


Asked = Callable[[Leadline, str, Path], dict[str, Said]]


def place(runs: Path, name: str) -> Path:
    """A file or folder of an archive by a pattern; the first where there are several."""
    return sorted(runs.glob(name))[0]


# Every file that a verb reads, as the pattern that finds it.
FILES = (
    "own/manifest.json",
    "own/plan.json",
    "own/plan-as-given",
    "own/created.jsonl",
    "own/inventory/*-start.json",
    "own/inventory/*-end.json",
    "own/trials/*randread*/trial.json",
    "own/trials/*randread*/derived.json",
    "own/trials/*randread*/fio.json",
    "own/trials/*randread*/*_iops.log",
    "own/trials/*randread*/stderr.txt",
    "imported/manifest.json",
    "imported/plan.json",
    "imported/trials/*/trial.json",
    "imported/trials/*/derived.json",
    "imported/imported/*fio.json",
)
# Of these alone `verify` may say nothing: it ends when they cannot be read.
FOLDERS = (
    "own/trials",
    "own/trials/*randread*",
    "own/inventory",
    "imported/trials/*",
    "imported/imported",
)


def tainted(content: bytes) -> bytes:
    """The same, still well-formed, but with words that would be seen in an answer."""
    if not content.lstrip().startswith((b"{", b"[")):
        return content + SECRET.encode()
    for word in (b"randread", b'"run": "', b'"hostname": "', b'"target": "'):
        content = content.replace(word, word.replace(b"randread", b"") + SECRET.encode())
    return content


@pytest.mark.parametrize(
    "asked", [read, pytest.param(judged, marks=[pytest.mark.thorough, pytest.mark.deep])]
)
@pytest.mark.parametrize("name", FILES)
def test_a_link_out_of_the_archive_is_not_followed(
    name: str, asked: Asked, leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    victim = place(runs, name)
    outside = tmp_path / "outside"
    outside.write_bytes(tainted(victim.read_bytes()))
    victim.unlink()
    victim.symlink_to(outside)
    assert asked(leadline, name.split("/")[0], tmp_path)["verify"].status != 0


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_a_link_is_not_followed(
    name: str, leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    victim = place(runs, name)
    outside = tmp_path / "outside"
    shutil.move(victim, outside)
    for path in outside.rglob("*"):
        if path.is_file():
            path.write_bytes(tainted(path.read_bytes()))
    victim.symlink_to(outside, target_is_directory=True)
    said = read(leadline, name.split("/")[0], tmp_path)
    assert said["verify"].status != 0


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_keeps_nobody_waiting(
    name: str, leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    victim = place(runs, name)
    victim.unlink()
    os.mkfifo(victim)
    said = read(leadline, name.split("/")[0], tmp_path)
    assert said["verify"].status != 0


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_the_place_of_a_file_is_an_error(
    name: str, leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    victim = place(runs, name)
    victim.unlink()
    (victim / "deeper").mkdir(parents=True)
    assert read(leadline, name.split("/")[0], tmp_path)["verify"].status != 0


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_2_gib_is_refused_by_its_size(
    name: str, leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    victim = place(runs, name)
    os.truncate(victim, LARGE)
    with limited_memory():
        said = read(leadline, name.split("/")[0], tmp_path)
    assert said["verify"].status != 0


def test_a_sealed_file_of_2_gib_is_not_hashed(
    leadline: Leadline, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest, which is a stranger's too, says that the size is right."""
    manifest = runs / "imported" / "manifest.json"
    record = json.loads(manifest.read_text())
    victim = place(runs, "imported/imported/*fio.json")
    record["files"]["imported/0001-fio.json"]["size_bytes"] = LARGE
    manifest.write_text(json.dumps(record))
    os.truncate(victim, LARGE)
    hashed = []
    digest = hashlib.file_digest

    def watched(stream: Any, name: str) -> Any:
        hashed.append(os.fstat(stream.fileno()).st_size)
        return digest(stream, name)

    monkeypatch.setattr("hashlib.file_digest", watched)
    assert leadline("verify", "imported").status == 1
    assert max(hashed, default=0) < LARGE


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith((".json", ".jsonl"))])
def test_ten_million_brackets_are_refused(
    name: str, leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    place(runs, name).write_bytes(b"[" * 10_000_000)
    with limited_memory():
        assert read(leadline, name.split("/")[0], tmp_path)["verify"].status != 0


class limited_memory:  # noqa: N801
    """More address space than this is refused by the kernel, and a verb that wants it fails."""

    def __enter__(self) -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        self._before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, self._before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_AS, self._before)


@pytest.mark.parametrize(
    "name",
    ["../../secret", "/etc/hostname", "trials/../../secret", "", ".", "a\x00b", ESCAPE, "x" * 5000],
)
def test_names_in_the_manifest_do_not_lead_out(
    name: str, leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    for run in ("own", "imported"):
        manifest = runs / run / "manifest.json"
        record = json.loads(manifest.read_text())
        content = SECRET.encode()
        record["files"][name] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
        }
        manifest.write_text(json.dumps(record))
        assert judged(leadline, run, tmp_path)["verify"].status != 0


def numbers(record: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers of a record."""
    if isinstance(record, dict | list):
        for key, inner in record.items() if isinstance(record, dict) else enumerate(record):
            yield from numbers(inner, (*where, key))
    elif isinstance(record, int | float) and not isinstance(record, bool):
        yield where


def changed(record: Any, where: tuple[Any, ...], value: object) -> Any:
    copy = json.loads(json.dumps(record))
    inner = copy
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    return copy


VALUES = {
    "1e308": 1e308,
    "negative": -1,
    "64 bits": 2**64 - 1,
    "40 digits": 10**40,
    "fraction": 0.5,
    "zero": 0,
    "text": "x",
    "null": None,
}
RECORDS = (
    "own/manifest.json",
    "own/plan.json",
    "own/inventory/*-start.json",
    "own/trials/*mixed*/trial.json",
    "own/trials/*mixed*/derived.json",
    "imported/plan.json",
    "imported/trials/*/trial.json",
    "imported/trials/*/derived.json",
)


# Every third pair has each value and each record with several others.
@pytest.mark.thorough
@pytest.mark.parametrize(("value", "name"), every(3, itertools.product(VALUES, RECORDS)))
def test_numbers_that_cannot_be_are_errors_or_do_no_harm(
    value: str, name: str, leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    """All numbers of a record one after the other, of long lists the first and the last."""
    victim = place(runs, name)
    content = victim.read_text()
    record = json.loads(content)
    shapes: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for path in numbers(record):
        shapes[tuple("#" if isinstance(key, int) or "." in key else key for key in path)] = path
    run = name.split("/")[0]
    page = tmp_path / "page.html"
    for path in shapes.values():
        victim.write_text(json.dumps(changed(record, path, VALUES[value])))
        # The page is the document that `show` prints, and holds its JSON.
        for arguments in (
            ("audit", run, "--format", "json"),
            ("verify", run),
            ("report", run, "-o", page, "--force"),
        ):
            said = leadline(*arguments)
            where = f"{path} as {value}: {arguments[0]}"
            assert said.status != Exit.BUG, f"{where}: {said.err}"
            if arguments[-1] == "json" and said.out:
                json.loads(said.out, parse_constant=_no_json)
        if said.status == 0:
            answer = read_page(page.name, page.read_text()).answer
            assert isinstance(answer, dict), where
            json.dumps(answer, allow_nan=False)
    # The terminal's form, of the last number.
    assert leadline("show", run).status != Exit.BUG


def _no_json(word: str) -> object:
    raise AssertionError(f"{word} is not JSON")


EVIL = (f"{ESCAPE}\u202e\x00\na\r\x85\u2028b", MARKUP, "|` *")


@pytest.mark.thorough
def test_each_name_does_no_harm(leadline: Leadline, runs: Path) -> None:
    """Every text of every record of an archive by itself, with all that a terminal obeys."""
    evil = EVIL[0]
    for name in RECORDS:
        victim = place(runs, name)
        content = victim.read_text()
        record = json.loads(content)
        for path in texts(record):
            victim.write_text(json.dumps(changed(record, path, evil)))
            run = name.split("/")[0]
            for arguments in (("show", run), ("audit", run), ("verify", run)):
                said = leadline(*arguments)
                assert said.status != Exit.BUG, f"{path}: {arguments[0]}: {said.err}"
                shown = said.out + said.err
                for bad in set(evil) & set("\x1b\x00\r\u202e\x85\u2028"):
                    assert bad not in shown, f"{path}: {arguments[0]} prints {bad!r}"
        victim.write_text(content)


@pytest.mark.thorough
@pytest.mark.parametrize("evil", EVIL, ids=["control", "markup", "markdown"])
def test_names_of_all_kinds_do_no_harm(
    evil: str, leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    """Every text of every record of an archive, all at once."""
    replaced_everywhere(runs / "own", "randread-4k-qd1", evil)
    replaced_everywhere(runs / "imported", '"fio"', json.dumps(evil), quoted=False)
    for run in ("own", "imported"):
        said = judged(leadline, run, tmp_path)
        assert evil not in said["report html"].out or evil == "|` *"


def texts(record: Any) -> list[tuple[Any, ...]]:
    """The paths of texts, one for each shape of path, and of no list more than its last item."""
    shapes: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def walk(inner: Any, where: tuple[Any, ...]) -> None:
        if isinstance(inner, dict | list):
            for key, value in inner.items() if isinstance(inner, dict) else enumerate(inner):
                walk(value, (*where, key))
        elif isinstance(inner, str):
            digests = where[-1] == "sha256"
            shapes[("sha256",) if digests else tuple(map(str, where[-2:]))] = where

    walk(record, ())
    return list(shapes.values())


def replaced_everywhere(run: Path, word: str, evil: str, *, quoted: bool = True) -> None:
    new = json.dumps(evil)[1:-1] if quoted else evil
    for path in run.rglob("*.json"):
        path.write_text(path.read_text().replace(word, new))


def test_keys_that_no_version_writes_are_told_without_harm(
    leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    for name in RECORDS:
        victim = place(runs, name)
        content = victim.read_text()
        victim.write_text(json.dumps(json.loads(content) | {ESCAPE + "\nhint: rm -rf /": 1}))
        said = judged(leadline, name.split("/")[0], tmp_path)
        assert said["verify"].status != 0
        for one in said.values():
            assert "\nhint: rm" not in one.err
        victim.write_text(content)


def test_a_run_may_be_called_anything_by_its_folder(
    leadline: Leadline, runs: Path, tmp_path: Path
) -> None:
    for number, evil in enumerate((ESCAPE, MARKUP.replace("/", ""), "a\nb", "--format", "@latest")):
        shutil.copytree(runs / "imported", runs / evil)
        path = runs / evil
        assert leadline("verify", path).status == 0
        assert "\x1b" not in leadline("list").out
        assert "\x1b" not in leadline("show", "nothing-like-it").err
        page = tmp_path / f"page{number}.html"
        assert leadline("report", path, "-o", page).status == 0
        assert evil not in page.read_text() or evil.startswith(("--", "@"))


def test_thousands_of_runs_that_are_none_hide_no_run(leadline: Leadline, runs: Path) -> None:
    for number in range(300):
        folder = runs / f"bad-{number}"
        folder.mkdir()
        (folder / "manifest.json").write_bytes(b"{" * (number % 7))
    told = json.loads(leadline("list", "--format", "json").out)
    assert sum(one["status"] == "damaged" for one in told["runs"]) == 300
    assert {"own", "imported"} <= {Path(one["path"]).name for one in told["runs"]}


# --- files on their way in ----------------------------------------------------------------------

FIO = (RECORDED / "randread-4k-qd1" / "fio.json").read_text()
TABLE = "cluster,target,workload,op,iops\n{},{},{},read,1000\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "evil", ["../../out", "/etc/out", "..", ".", "a/b", ESCAPE, MARKUP, "x" * 9999]
)
def test_names_in_files_name_no_folder_of_ours(
    evil: str, leadline: Leadline, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "table.csv").write_text(TABLE.format(evil, evil, evil))
    document = json.loads(FIO)
    document["jobs"][0]["jobname"] = evil
    document["jobs"][0]["job options"]["filename"] = evil
    (given / "fio.json").write_text(json.dumps(document))
    before = everything(tmp_path.parent) - everything(tmp_path)
    for number, name in enumerate(("table.csv", "fio.json")):
        said = leadline("import", "auto", given / name, "--run", f"r{number}", "--format", "json")
        assert said.status == 0, said.err
        for run in json.loads(said.out)["runs"]:
            assert Path(run["path"]).parent == tmp_path / "runs"
            judged(leadline, run["path"], tmp_path)
    assert everything(tmp_path.parent) - everything(tmp_path) == before


def everything(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize(
    "name",
    [
        b"\xff\xfe.json",
        b"a\nb.json",
        b"\x1b[31m.json",
        b"-rf.json",
        b"<script>.json",
        b"\xe2\x80\xae.json",
    ],
)
def test_files_may_have_any_name(name: bytes, leadline: Leadline, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / os.fsdecode(name)).write_text(FIO)
    (given / os.fsdecode(b"letter" + name)).write_text("Dear fio")
    said = leadline("import", "auto", given, "--run", "r")
    assert said.status == 0, said.err
    assert not set("\x1b\u202e") & set(said.out + said.err)
    judged(leadline, "r", tmp_path)
    assert leadline("verify", "r").status == 0


@pytest.mark.parametrize("text", ["\\ud800", "\\u0000", "\\u001b[31m", "\\ud83d\\ude00", "\\uffff"])
def test_texts_that_json_can_hold_and_utf_8_cannot(
    text: str, leadline: Leadline, tmp_path: Path
) -> None:
    path = tmp_path / "fio.json"
    path.write_text(FIO.replace('"randread"', f'"randread{text}"').replace("libaio", text))
    said = leadline("import", "fio", path, "--run", "r")
    assert said.status == 0, said.err
    judged(leadline, "r", tmp_path)
    assert leadline("verify", "r").status == 0


def test_what_is_too_large_or_no_file_is_refused_without_being_read(
    leadline: Leadline, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    deep = given.joinpath(*(["d"] * 100))
    deep.mkdir(parents=True)
    (deep / "deep.json").write_text(FIO)
    (given / "good.json").write_text(FIO)
    (given / "large.json").touch()
    os.truncate(given / "large.json", LARGE)
    os.mkfifo(given / "pipe.json")
    (given / "link.json").symlink_to("/etc/passwd")
    (given / "loop").symlink_to(given, target_is_directory=True)
    (given / "self.json").symlink_to("self.json")
    with limited_memory():
        said = leadline("import", "auto", given, "--run", "r", "--format", "json")
    assert said.status == 1
    told = json.loads(said.out)
    assert told["runs"][0]["trials"] == 1
    refused = {one["file"]: one["reason"] for one in told["refused"]}
    assert {"large.json", "pipe.json", "link.json", "self.json"} <= refused.keys()
    assert any("deeper" in reason for reason in refused.values())


# --- plans --------------------------------------------------------------------------------------

ANCHORS = [f"a{number}" for number in range(9)]
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in itertools.pairwise(ANCHORS)
)
QUICK = "targets: [dir:/tmp]\nprofile: quick\n"
MANY = f"targets: [{', '.join(f'dir:/tmp/{n}' for n in range(1000))}]\nprofile: quick\n"
# What is written, and a part of what is said of it.
PLANS = {
    "billion laughs": (LAUGHS, "anchors and aliases"),
    "nested lists": ("targets: " + "[" * 1_000_000, "nested too deeply"),
    "nested mappings": ("targets: " + "{a: " * 250_000, "nested too deeply"),
    "nested lines": ("".join(f"{' ' * n}a:\n" for n in range(1400)), "nested too deeply"),
    "billions of trials": (f"{MANY}repeats: 1000\n", "100,000 are the most"),
    "a long number": (f"{QUICK}seed: {'9' * 5000}\n", "no int that is taken"),
    "a tag that lies": (f"{QUICK}seed: !!bool x\n", "no bool that is taken"),
    "a tag that fails": (f"{QUICK}seed: !!timestamp x\n", "is not taken"),
    "thousands of faults": ("targets: [" + "x, " * 5_000 + "]\n", "is not a target"),
    "thousands of profiles": (
        "targets: [dir:/tmp]\nprofile: [" + "quick, " * 5_000 + "]\n",
        "repeats workloads",
    ),
    "a control character": (f"{QUICK}\x1b[31mred: 1\n", "plan-"),
    "an escaped control character": (f'{QUICK}"\\e[31mred": 1\n', "unknown key"),
    "more than a mebibyte": (QUICK + "#" * (1 << 20), "larger than"),
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_that_is_made_to_grow_is_refused(
    plan: str, leadline: Leadline, tmp_path: Path
) -> None:
    text, said = PLANS[plan]
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with limited_memory():
        told = leadline("check", path)
    assert told.status == Exit.WRONG_REQUEST
    assert said in told.err + told.out
    assert not set("\x1b\x9b") & set(told.err + told.out)
