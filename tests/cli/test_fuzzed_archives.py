"""Mutated and forged archives and job files against sentinels: `clean`, `run --resume` and `check`
may refuse them, and never touch what is not the run's.

`LEADLINE_FUZZ_SECONDS` (30 in `make test-thorough`, 600 in `make test-deep`) and
`LEADLINE_FUZZ_SEED`. A finding names its seed and number; `LEADLINE_FUZZ_CASE` runs that number.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.archive import layout
from leadline.archive.journal import JournalFile
from leadline.archive.reader import Run
from leadline.archive.records import Created, Manifest, SettingChange, SettingStep
from leadline.archive.scrub import renew_digests
from leadline.archive.verify import check_intact
from leadline.cli.main import main
from leadline.engines.replay import ReplayEngine
from leadline.errors import LeadlineError
from leadline.inventory.layer import Record
from tests.cli.conftest import TRUSTED
from tests.conftest import RECORDED

SECONDS = float(os.environ.get("LEADLINE_FUZZ_SECONDS", "30"))
SEED = int(os.environ.get("LEADLINE_FUZZ_SEED", "1"))
CASE = os.environ.get("LEADLINE_FUZZ_CASE")
OTHER = "leadline-perf-20260101-000000-other-0123456789abcdef"
STATES = ("1", "2")
# Of a case: a verb that waits for something is a finding.
BOUND_S = 300
# Imported once: each verb runs in a child of its own.
for _verb in ("check", "clean", "run", "show", "verify"):
    importlib.import_module(f"leadline.cli.{_verb}")


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """A user's home, a run that was killed, and what must never be touched."""

    root: Path
    runs: Path
    target: Path
    value: Path
    trace: Path
    watched: subprocess.Popen[bytes] = field(repr=False)

    @property
    def home(self) -> Path:
        return self.root / "home"

    def sentinels(self) -> dict[str, str]:
        """Digests of all that is the user's: home, another run's folder, a setting's value."""
        texts = {str(path): state_of(path) for path in sorted(self.home.rglob("*"))}
        texts |= {str(path): state_of(path) for path in sorted((self.target / OTHER).rglob("*"))}
        texts[str(self.target / "of-the-user")] = state_of(self.target / "of-the-user")
        texts["trace"] = str(self.trace.exists())
        texts["process"] = str(self.watched.poll())
        return texts


def state_of(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    about = path.stat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
    return f"{about.st_mode:o} {about.st_uid} {content}"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    root = tmp_path_factory.mktemp("fuzz")
    home, target = root / "home", root / "target"
    (home / "project").mkdir(parents=True)
    target.mkdir()
    for name in ("leadline.0.dat", "thesis.txt", "project/leadline.1.dat", "disk.img"):
        (home / name).write_text(f"not Leadline's: {name}\n")
    (target / "of-the-user").write_text("not Leadline's\n")
    (target / OTHER).mkdir()
    (target / OTHER / ".leadline-owner").write_text("perf-20260101-000000-other 0123456789abcdef\n")
    (target / OTHER / "leadline.0.dat").write_text("another run's\n")
    (root / "value").write_text("5\n")
    # Not to be ended by who cleans up after a killed run: it works elsewhere.
    idle = "import time; time.sleep(36000)"
    watched = subprocess.Popen((sys.executable, "-c", idle, "--output"), cwd=home)
    sandbox = Sandbox(
        root=root,
        runs=root / "runs",
        target=target,
        value=root / "value",
        trace=root / "trace",
        watched=watched,
    )
    make_archives(sandbox)
    shutil.copytree(root, root.with_name("kept"), symlinks=True)
    yield sandbox
    watched.kill()
    watched.wait()


def make_archives(sandbox: Sandbox) -> None:
    """A run that was killed with a changed setting, one that is complete, one that was killed
    without settings."""
    document = yaml.safe_load(TRUSTED.format(targets=f"dir:{sandbox.target}"))
    settings = {"own": {"host_file": {"path": str(sandbox.value), "values": list(STATES)}}}
    for name, keys, kill in (
        ("first", {}, False),
        ("second", {}, True),
        ("third", {"settings": settings}, True),
    ):
        plan = sandbox.root / f"{name}.yaml"
        plan.write_text(yaml.safe_dump({**document, **keys, "repeats": 2, "name": name}))
        status = in_child(sandbox, ["run", str(plan), *replay(sandbox)], kill=kill)[0]
        assert (status == -signal.SIGKILL) == kill


def replay(sandbox: Sandbox) -> list[str]:
    return ["--replay", str(RECORDED), "--quiet", "--runs", str(sandbox.runs)]


def in_child(sandbox: Sandbox, arguments: list[str], *, kill: bool = False) -> tuple[int, str]:
    """Run the command line in a child process; its status (negative: a signal) and its output."""
    log = sandbox.root / "log"
    child = os.fork()
    if not child:
        signal.alarm(BOUND_S)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        os.environ["XDG_CACHE_HOME"] = str(sandbox.root / "cache")
        os.chdir(sandbox.root)
        if kill:
            kill_in_later_trial(sandbox)
        status = 71
        try:
            status = main(arguments)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log.read_text(errors="replace")


def kill_in_later_trial(sandbox: Sandbox) -> None:
    execute, count = ReplayEngine.execute, 0

    def execute_or_die(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        settings = "third" in " ".join(path.name for path in sandbox.runs.iterdir())
        if count > 1 and (not settings or sandbox.value.read_text() != "5\n"):
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(*arguments, **named)

    ReplayEngine.execute = execute_or_die  # type: ignore[method-assign]


def restore(sandbox: Sandbox) -> None:
    """Bring the sandbox back to what it was; the watched process stays."""
    kept = sandbox.root.with_name("kept")
    for path in sandbox.root.iterdir():
        if path.name != "home" and (path.is_symlink() or not path.is_dir()):
            path.unlink()
        elif path.name != "home":
            shutil.rmtree(path)
    for path in kept.iterdir():
        if path.name == "home":
            continue
        if path.is_dir():
            shutil.copytree(path, sandbox.root / path.name, symlinks=True)
        else:
            shutil.copy2(path, sandbox.root / path.name)


# Mutations --------------------------------------------------------------------------------------


@dataclass
class Mutator:
    """Changes an archive. `notes` say how, for the report of a finding."""

    sandbox: Sandbox
    archive: Path
    chance: random.Random
    notes: list[str] = field(default_factory=list)

    def mutate(self) -> None:
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            change = self.chance.choice(
                (
                    self.change_bytes,
                    self.change_bytes,
                    self.change_file,
                    self.add_entries,
                    self.add_entries,
                    self.add_changes,
                    self.edit_plan,
                    self.edit_plan,
                    self.edit_manifest,
                    self.add_link,
                )
            )
            with suppress(OSError, ValueError, IndexError, LeadlineError):
                change()
        if self.chance.random() < 0.6:
            self.forge()

    def _file(self) -> Path:
        names = [*layout.content_files(self.archive), layout.MANIFEST]
        # A link leads to a sentinel, which only Leadline must not write through it.
        names = [name for name in names if not (self.archive / name).is_symlink()]
        weighty = [name for name in names if "/" not in name]
        return self.archive / self.chance.choice(weighty if self.chance.random() < 0.7 else names)

    def change_bytes(self) -> None:
        path = self._file()
        content = bytearray(path.read_bytes())
        for _ in range(self.chance.choice((1, 1, 1, 4))):
            at = self.chance.randrange(len(content))
            content[at] ^= self.chance.randrange(1, 256)
        path.write_bytes(content)
        self.notes.append(f"bytes of {path.name}")

    def change_file(self) -> None:
        path = self._file()
        lines = path.read_bytes().splitlines(keepends=True)
        action = self.chance.choice(("cut", "drop", "twice", "remove", "empty", "other"))
        if action == "cut":
            content = b"".join(lines)
            path.write_bytes(content[: self.chance.randrange(len(content))])
        elif action == "drop":
            lines.pop(self.chance.randrange(len(lines)))
            path.write_bytes(b"".join(lines))
        elif action == "twice":
            path.write_bytes(b"".join([*lines, self.chance.choice(lines)]))
        elif action == "remove":
            path.unlink()
        elif action == "empty":
            path.write_bytes(b"")
        else:
            path.write_bytes(self._file().read_bytes())
        self.notes.append(f"{action} {path.name}")

    def _paths(self) -> list[str]:
        sandbox = self.sandbox
        home = sandbox.home
        run = Run(self.archive).id
        token = "0123456789abcdef"
        folder = f"leadline-{run}-{token}"
        return [
            *(str(home), str(home / "project"), f"{home}/../home", f"{home}/", str(sandbox.target)),
            *(str(sandbox.target / OTHER), str(sandbox.target / folder), str(home / folder)),
            *(f"{sandbox.target}/../home", "/", "", ".", "home", "\0", "/dev/null"),
            *(f"lab:{name}" for name in ("", "..", "../home", str(home), "x")),
            *(f"hosts:localhost:{home}", f"hosts:-oProxyCommand=touch {sandbox.trace}:/x"),
            *(f"zfs:{home}", "zfs:tank/home", f"zfs://localhost/{home}", "rbd:rbd/image"),
            *("rados:rbd/", "rados:rbd/x", "rados-objects:rbd/x-/1x1x1", f"shared:rbd/{folder}"),
            *(f"shared:../../{home}/leadline-x-{token}", f"nbd:rbd/{folder}", "delay:x"),
            *("kubernetes:prod", "kubernetes:prod/jobs/my", "drill:x", f"drill:{home}"),
            *(f"file:{home}", "unknown:x"),
        ]

    def add_entries(self) -> None:
        """Entries of things that the run did not make."""
        names = [target.name for target in Run(self.archive).plan.targets]
        event = {"command": {"begin": "true", "end": f"touch {self.sandbox.trace}"}}
        tokens = ["", "0", "0123456789abcdef", "../../home", "f" * 16, "*", "0.5", "nan"]
        tokens.append(json.dumps({"event": event}))
        self._append(
            layout.CREATED,
            Created(
                target=self.chance.choice([*names, "", "nobody"]),
                cluster=self.chance.choice(["", "", "evil"]),
                path=self.chance.choice(self._paths()),
                token=self.chance.choice(tokens),
                removed=self.chance.random() < 0.1,
            ),
        )

    def add_changes(self) -> None:
        """Changes of settings that the run did not make."""
        sandbox = self.sandbox
        for step in self.chance.choice(
            ((SettingStep.APPLY,), (SettingStep.APPLY, SettingStep.APPLIED))
        ):
            self._append(
                layout.SETTINGS,
                SettingChange(
                    at="2026-01-01T00:00:00.000+00:00",
                    setting=self.chance.choice(["own", "evil", "nobody"]),
                    cluster=self.chance.choice(["", "evil"]),
                    parameter=self.chance.choice(
                        [str(sandbox.home / "thesis.txt"), str(sandbox.value), "", "x"]
                    ),
                    step=step,
                    before=self.chance.choice(["evil", "5", None]),
                    value=self.chance.choice(["5", "1", "evil", None]),
                    read=self.chance.choice(["5", "1", None]),
                ),
            )

    def _append(self, name: str, entry: Record) -> None:
        if (self.archive / name).is_symlink():
            return
        self.notes.append(f"{name}: {entry.model_dump_json()}")
        if self.chance.random() < 0.5:
            with (self.archive / name).open("ab") as stream:
                stream.write(entry.model_dump_json().encode() + b"\n")
        else:
            journal = JournalFile(self.archive / name)
            journal.append(entry)
            journal.close()

    def edit_plan(self) -> None:
        place = self.archive / layout.PLAN
        plan = json.loads(place.read_bytes())
        sandbox, target = self.sandbox, self.chance.choice(plan["targets"])
        touch = f"touch {sandbox.trace}"
        action = self.chance.choice(
            ("url", "command", "file", "kubeconfig", "conf", "drill", "job", "name", "any")
        )
        if action == "url":
            target["url"] = self.chance.choice(
                [
                    *(f"dir:{sandbox.home}", f"device:{sandbox.home}/disk.img", "dir:/proc"),
                    *(f"hosts:-oProxyCommand={touch}:/tmp", f"cephfs:{sandbox.home}"),
                ]
            )
        elif action == "command":
            command = {"apply": f"{touch} {{value}}", "restore": f"{touch} {{before}}"}
            plan["settings"] = [
                {"name": name, "command": {**command, "read": touch, "values": list(STATES)}}
                for name in ("own", "evil")
            ]
        elif action == "file":
            path = str(sandbox.home / "thesis.txt")
            plan["settings"] = [
                {"name": "own", "host_file": {"path": path, "values": list(STATES)}}
            ]
        elif action in ("kubeconfig", "conf"):
            self._add_cluster(plan, action, touch)
        elif action == "drill":
            event = {"command": {"begin": touch, "end": touch}}
            drill = {"after": 5, "lasts": 1, "event": event}
            for cell in plan["cells"]:
                cell["workload"]["drill"] = drill
        elif action == "job":
            for cell in plan["cells"]:
                cell["workload"]["job_file"] = {
                    "path": "evil.fio",
                    "text": self.chance.choice(hostile_jobs(sandbox)),
                    "runtime_s": 1,
                    "ramp_s": 0,
                    "footprint_bytes": 4096,
                    "writes": True,
                }
        elif action == "name":
            target["name"] = self.chance.choice(["", "../x", "-x", "x" * 500, "a\0b"])
        else:
            replace_any(plan, self.chance.choice(self._paths()), self.chance)
        place.write_text(json.dumps(plan))
        self.notes.append(f"plan: {action}")

    def _add_cluster(self, plan: dict[str, Any], kind: str, touch: str) -> None:
        cluster: dict[str, Any] = {"name": "evil"}
        if kind == "kubeconfig":
            user = {"exec": {"command": "sh", "args": ["-c", touch], "apiVersion": "v1"}}
            document = {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
            path = self.archive / "kubeconfig"
            path.write_text(yaml.safe_dump(document))
            cluster["kubernetes"] = {"kubeconfig": str(path)}
        else:
            path = self.archive / "ceph.conf"
            path.write_text(f"[global]\nlog_file = {self.sandbox.home}/thesis.txt\n")
            cluster["ceph_conf"] = str(path)
        plan["clusters"] = [cluster]
        for target in plan["targets"]:
            target["cluster"] = "evil"

    def edit_manifest(self) -> None:
        place = self.archive / layout.MANIFEST
        manifest = json.loads(place.read_bytes())
        key, value = self.chance.choice(
            (
                ("run", "../../home"),
                ("run", "perf-20260101-000000-other"),
                ("run", ""),
                ("status", "running"),
                ("status", "interrupted"),
                ("status", "complete"),
                ("files", {}),
                ("journaled", False),
                ("trials_planned", 10**9),
            )
        )
        manifest[key] = value
        place.write_text(json.dumps(manifest))
        self.notes.append(f"manifest: {key} = {value!r}")

    def add_link(self) -> None:
        place = self.archive / self.chance.choice(
            (layout.STAGING, layout.LOCK, layout.CREATED, layout.UNDO, layout.GUARD, "trials/x")
        )
        if place.exists():
            place.unlink()
        place.symlink_to(self.chance.choice((self.sandbox.home, self.sandbox.home / "thesis.txt")))
        self.notes.append(f"{place.name} is a link")

    def forge(self) -> None:
        """Give the archive the digests and seals of what it holds now."""
        self.notes.append("forged")
        with suppress(OSError, ValueError, LeadlineError):
            for name in layout.JOURNALS:
                if (self.archive / name).is_file():
                    seal_lines(self.archive / name)
            manifest = Manifest.model_validate_json((self.archive / layout.MANIFEST).read_bytes())
            renew_digests(self.archive)
            files = {}
            if manifest.files:
                files = {
                    name: layout.digest_file(self.archive / name)
                    for name in layout.content_files(self.archive)
                }
            fresh = layout.encode(manifest.model_copy(update={"files": files}))
            (self.archive / layout.MANIFEST).write_bytes(fresh)


def seal_lines(path: Path) -> None:
    """Give each line of a journal that is JSON a valid seal."""
    lines = path.read_bytes().splitlines()
    path.unlink()
    journal = JournalFile(path)
    for line in lines:
        with suppress(ValueError):
            document = json.loads(line)
            document.pop("seal", None)
            model = Created if path.name == layout.CREATED else SettingChange
            journal.append(model.model_validate(document))
    journal.close()


def replace_any(document: Any, text: str, chance: random.Random) -> None:
    """Replace one text anywhere in a document."""
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in items:
            if isinstance(member, str):
                places.append((value, key))
            elif isinstance(member, dict | list):
                collect(member)

    collect(document)
    holder, key = chance.choice(places)
    holder[key] = text


def hostile_jobs(sandbox: Sandbox) -> list[str]:
    thesis, trace = sandbox.home / "thesis.txt", sandbox.trace
    options = "rw=write\nsize=4k\nruntime=1\n"
    return [
        f"[../../home/thesis.txt]\n{options}",
        f"[{thesis}]\n{options}",
        f"[x]\n{options}filename={thesis}\n",
        f"[x]\n{options}file${{NOTHING}}name={thesis}\n",
        f"[x]\n{options}filename ={thesis}\n",
        f"[x]\n#{'x' * 8190}\nfilename={thesis}\n{options}",
        f"[x]\n{options}description={'x' * 8190}\nfilename={thesis}\n",
        f"[x]\n{options}exec_prerun=touch {trace}\n",
        f"[x]\n{options}exec_postrun=touch {trace}\n",
        f"[x]\n{options}ioengine=external:{sandbox.home}/evil.so\n",
        f"[x]\n{options}write_bw_log={thesis}\n",
        f"[x]\n{options}directory={sandbox.home}\n",
        f"include {thesis}\n[x]\n{options}",
        f"[x]\n{options}filename_format={sandbox.home}/thesis.txt\n",
        f"[x]\n{options}mem=mmap:{thesis}\n",
    ]


# The cases --------------------------------------------------------------------------------------


def cases() -> Iterator[int]:
    if CASE:
        yield int(CASE)
        return
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        yield number
        number += 1


def commands(sandbox: Sandbox, archive: Path, chance: random.Random) -> list[list[str]]:
    """What a user may do with an archive, in an order."""
    place = ["--runs", str(sandbox.runs)]
    plan = sandbox.root / "evil.yaml"
    job = sandbox.root / "evil.fio"
    job.write_text(chance.choice(hostile_jobs(sandbox)))
    document = {
        "targets": [f"dir:{sandbox.target}"],
        "prefill": False,
        "workloads": [{"name": "own", "job_file": str(job)}],
    }
    plan.write_text(yaml.safe_dump(document))
    several = [
        ["clean", *place],
        ["clean", str(archive), *place],
        ["clean", str(archive), "--dry-run", *place],
        ["run", "--resume", str(archive), *replay(sandbox)],
        ["run", "--resume", str(archive), "--quiet", *place],
        ["verify", str(archive), *place],
        ["check", str(plan), *place],
        ["run", str(plan), "--quiet", "--runs", str(sandbox.root / "others")],
    ]
    return chance.sample(several, 3)


def judge(
    sandbox: Sandbox, archive: Path, arguments: list[str], status: int, output: str, intact: bool
) -> Iterator[str]:
    """What a verb did that it must not, as sentences."""
    if status not in (0, 1, 2, 3, 4, 5, 6, 130) or "Traceback" in output:
        yield f"status {status}"
    if arguments[:2] == ["run", "--resume"] and status in (0, 1):
        with suppress(LeadlineError):
            run = Run(archive)
            if not (run.complete and run.manifest.files):
                yield f"status {status} of a run that is not complete"
    if not intact and check_intact(Run(archive)) == ():
        yield "damage is forgotten"
    text = sandbox.value.read_text() if sandbox.value.exists() else "missing"
    if text.strip() not in ("5", *STATES):
        yield f"the value of the setting is {text!r}"


@pytest.mark.thorough
def test_no_archive_and_no_job_file_touches_what_is_not_the_runs(template: Sandbox) -> None:
    sandbox, findings, count = template, [], 0
    verdicts: dict[int, int] = {}
    for number in cases():
        chance = random.Random(f"{SEED}:{number}")
        restore(sandbox)
        before = sandbox.sentinels()
        archive = chance.choice(sorted(sandbox.runs.glob("perf-*")))
        mutator = Mutator(sandbox, archive, chance)
        mutator.mutate()
        intact = check_intact(Run(archive)) == ()
        for arguments in commands(sandbox, archive, chance):
            status, output = in_child(sandbox, arguments)
            verdicts[status] = verdicts.get(status, 0) + 1
            faults = list(judge(sandbox, archive, arguments, status, output, intact))
            after = sandbox.sentinels()
            faults += [f"touched: {key}" for key in before if after.get(key) != before[key]]
            faults += [f"added: {key}" for key in after.keys() - before.keys()]
            if faults:
                findings.append(
                    f"seed {SEED} case {number} ({'; '.join(mutator.notes)}): "
                    f"{' '.join(arguments)}: {'; '.join(faults)}\n{output[-1500:]}"
                )
                break
        count += 1
        if len(findings) == 5:
            break
    sys.stderr.write(f"\n{count} archives, verbs by status: {dict(sorted(verdicts.items()))}\n")
    assert not findings, "\n\n".join(findings)
    # A fuzzer whose archives are all refused at once finds nothing; so does one without any.
    assert CASE or (verdicts.get(0, 0) > count / 10 and count > SECONDS / 10)


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_the_sandbox_without_a_mutation_is_cleaned_and_resumed(
    template: Sandbox, name: str
) -> None:
    restore(template)
    before = template.sentinels()
    (archive,) = template.runs.glob(f"perf-*-{name}")
    place = ["--runs", str(template.runs)]
    status, output = in_child(template, ["clean", str(archive), *place])
    assert status == 0, output
    if name != "first":
        consent = ["--allow-archived", "own"] if name == "third" else []
        resumed = ["run", "--resume", str(archive), *consent, *replay(template)]
        status, output = in_child(template, resumed)
        assert status in (0, 1), output
        assert Run(archive).complete
        left = {path.name for path in template.target.iterdir()} - {OTHER, "of-the-user"}
        assert not any(archive.name in folder for folder in left)
    assert template.sentinels() == before
