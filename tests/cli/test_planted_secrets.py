"""Secrets in every kind of input and in the environment: none is in what Leadline writes or prints.

Each planted secret is unique, so that a leak names its source. The inputs lie in a folder of their
own; all else below the test's folder, and everything printed, is searched.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus
from leadline.archive.writer import RunWriter
from leadline.formats.fio.json_output import parse_fio_json
from leadline.inventory.kubernetes.folder import read_folder
from leadline.inventory.redaction import redact_document
from leadline.lab import processes
from leadline.plan.models import Cluster
from leadline.probes.ceph import capture
from tests.cli.conftest import HEAD, Leadline, recorded_output, rows
from tests.conftest import RECORDED, Said
from tests.golden.archive_builder import CREATED, make_run, small_plan
from tests.unit.archive.test_archive import SESSION
from tests.unit.inventory.kubernetes.conftest import CLUSTERS
from tests.unit.inventory.kubernetes.conftest import NAMES as KUBERNETES
from tests.unit.probes.test_ceph import Cluster as CephDouble

pytestmark = pytest.mark.thorough

CEPH = ("ceph-multi-az", "ceph-single-az", "ceph-autoscaler-on")
OPTIONS = (
    "rgw_keystone_admin_password", "rgw_opa_token", "rgw_crypt_s3_kms_encryption_keys",
    "rgw_crypt_default_encryption_key", "rgw_sts_key", "mgr/dashboard/MULTICLUSTER_CONFIG",
    "mgr/cephadm/registry_credentials", "mgr/dashboard/GRAFANA_API_PASSWORD",
    "mgr/alerts/smtp_password", "mgr/telegraf/api_key", "vendor_client_secret",
)  # fmt: skip
VARIABLES = (
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "VAULT_TOKEN", "PGPASSWORD",
    "OS_PASSWORD", "RESTIC_PASSWORD", "INNOCENT_NAME", "LD_PRELOAD_LIKE", "FIO_SECRET",
    "HTTPS_PROXY", "DOCKER_AUTH_CONFIG", "CEPHISH_KEY", "LEADLINE_SOMETHING",
)  # fmt: skip


WORD = "Hunter2x"


class Planted:
    """Makes secrets; `payloads` are what must be found nowhere, by where they were planted."""

    def __init__(self) -> None:
        self.payloads: dict[str, str] = {}

    def found_in(self, text: str) -> list[str]:
        """Where the secrets in a text were planted."""
        # Most of thousands begin alike: a text is searched for each only if it holds that.
        words = WORD in text
        return [
            where
            for secret, where in self.payloads.items()
            if (words or not secret.startswith(WORD)) and secret in text
        ]

    def word(self, where: str) -> str:
        """A unique word."""
        word = f"{WORD}{len(self.payloads):05d}qZ"
        self.payloads[word] = where
        return word

    def texts(self, where: str) -> list[str]:
        """A line with a secret for each form and each way to name one."""
        number = len(self.payloads)
        raw = b"\x01\x00" + number.to_bytes(8, "big") + b"\x10\x00" + b"sixteen bytes ok"
        cephx = base64.b64encode(raw).decode()
        longer = base64.b64encode(b"\x02\x00" + raw[2:10] + b"\x20\x00" + b"k" * 32).decode()
        header = base64.urlsafe_b64encode(b'{"alg":"HS256"}').decode().rstrip("=")
        letters = "".join(chr(ord("A") + int(digit)) for digit in f"{number:010d}")
        claims = f"{number:08d}" + "a" * 20
        aws = f"AKIA{letters}QRSTUV"
        forms = {
            cephx: f"mon says {cephx} is wrong",
            longer: f"caps of {longer} changed",
            claims: f"got {header}.eyJ{claims}.c2lnbmF0dXJl from the proxy",
            aws: f"using {aws} in eu-central-1",
            f"{number:06d}pem": (
                f"-----BEGIN EC PRIVATE KEY-----\n{number:06d}pem+MHcCAQEE/\n"
                "-----END EC PRIVATE KEY-----"
            ),
        }
        self.payloads |= {form: f"{where}: form of {line[:24]!r}" for form, line in forms.items()}
        word = self.word
        return [
            *forms.values(),
            f"GET https://user:{word(where)}@registry.example/v2/ 401",
            f"PUT https://s3.example/b?X-Amz-Signature={word(where)}&partNumber=1",
            f"Authorization: Bearer {word(where)}",
            f"authorization: Basic {word(where)}",
            f"ghp_{word(where)}{'a' * 30} was refused",
            f"admin_password = {word(where)} with {word(where)} words",
            f"  client-secret: '{word(where)}'",
            f'{{"nested": {{"apiToken": "{word(where)}", "n": 1}}}}',
            f"connect(user=x, password={word(where)}, tries=3)",
            f"rados --passphrase {word(where)} --pool p",
            f'said \\"secret_access_key\\": \\"{word(where)}\\", again',
            f"rgw keystone admin password = {word(where)}",
        ]

    def into_json(self, value: Any, where: str) -> Any:
        """Plant into a decoded document: in its root and in its first objects."""
        if isinstance(value, list):
            for element in value[:2]:
                self.into_json(element, where)
        if isinstance(value, dict):
            for member in [*value.values()][:3]:
                if isinstance(member, dict | list):
                    self.into_json(member, where)
            value["leadline_note"] = "\n".join(self.texts(where))
            value["admin_password"] = self.word(where)
            value["vendorApiKey"] = {"deep": [self.word(where)]}
            value["settings"] = [{"name": "backend_secret", "value": self.word(where)}]
            value["command_line"] = ["prog", "--auth-token", self.word(where)]
        return value


@pytest.fixture
def planted() -> Planted:
    return Planted()


class Search:
    """Runs verbs and searches what they print and what lies below a folder."""

    def __init__(self, leadline: Leadline, planted: Planted, inputs: Path, root: Path) -> None:
        self._leadline, self._planted = leadline, planted
        self._inputs, self._root = inputs, root
        self.printed = 0

    def __call__(self, *arguments: object, status: tuple[int, ...] = (0,)) -> Said:
        said = self._leadline(*arguments)
        assert said.status in status, (arguments, said.err)
        self.printed += len(said.out) + len(said.err)
        self._require_clean(f"stdout of {arguments}", said.out)
        self._require_clean(f"stderr of {arguments}", said.err)
        return said

    def files(self) -> int:
        """Search every file that is no input; how many there are."""
        count = 0
        for path in self._root.rglob("*"):
            if path.is_file() and not path.is_relative_to(self._inputs):
                count += 1
                text = path.read_bytes().decode("utf-8", "replace")
                self._require_clean(str(path.relative_to(self._root)), text)
        return count

    def _require_clean(self, what: str, text: str) -> None:
        assert self._planted.found_in(text) == [], what


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "inputs"
    folder.mkdir()
    return folder


@pytest.fixture
def search(
    leadline: Leadline,
    planted: Planted,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Search:
    for name in VARIABLES:
        monkeypatch.setenv(name, planted.word(f"variable {name}"))
    monkeypatch.delenv("CEPH_CONF", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Search(leadline, planted, inputs, tmp_path)


FORMATS = {
    "show": ("text", "json", "csv", "markdown"),
    "audit": ("text", "json", "markdown", "junit"),
    "rank": ("text", "json", "csv", "markdown"),
    "scale": ("text", "json", "csv", "markdown"),
    "predict": ("text", "json", "markdown"),
    "layers": ("text", "json", "markdown"),
}


def read_with_every_verb(search: Search, run: object, pages: Path, *, whole: bool = False) -> None:
    """Print and write what there is of a run; some of it is an answer that there is nothing.

    Text is rendered from the same document as Markdown, and CSV has the rows of JSON: one run is
    printed in all formats (`whole`), the others in one of each kind.
    """
    for verb, formats in FORMATS.items():
        for output in formats if whole else ("text", "json"):
            nothing = (2,) if verb == "layers" else ()
            search(verb, run, "--format", output, status=(0, 1, 5, 6, *nothing))
    search("recommend", run, "--for", "database", status=(0, 1, 5, 6))
    search("verify", run)
    search("list")
    search("list", "--format", "json")
    pages.mkdir(exist_ok=True)
    for suffix in ("html", "md", "json", "csv"):
        search("report", run, "-o", pages / f"page.{suffix}", "--force")


def test_dumps_of_ceph_clusters(
    search: Search, planted: Planted, inputs: Path, tmp_path: Path
) -> None:
    captured = {}
    for name in CEPH:
        dumps = planted_ceph(planted, name)
        for file, content in dumps.items():
            layout.make_folders(inputs / name)
            (inputs / name / file).write_bytes(content)
        given = ("inventory", "--from-dir", inputs / name)
        for output in ("text", "json", "markdown"):
            search(*given, "--full", "--format", output)
        search(*given, "--save", tmp_path / "saved" / name)
        search(*given, "--against", RECORDED.parent / CEPH[0], status=(0, 5, 6))
        # As a run captures it.
        captured[name] = capture(CephDouble(dumps))
    run = archive_with(tmp_path / "runs", captured)
    assert len(Run(run).redactions.redactions) > 50 * len(CEPH)
    read_with_every_verb(search, run, tmp_path / "pages")
    page = (tmp_path / "pages" / "page.html").read_text()
    assert "Redactions" in page
    assert "ceph-option" in page
    assert search.files() > 20 * len(CEPH)


def planted_ceph(planted: Planted, name: str) -> dict[str, bytes]:
    """The dumps of a recorded cluster with secrets in each."""
    dumps = {}
    for path in sorted((RECORDED.parent / name).glob("*.json")):
        document = json.loads(path.read_bytes())
        if path.name == "health_detail.json":  # whose members are all health checks
            document["checks"]["PLANTED"] = planted.into_json(
                {"severity": "HEALTH_WARN", "summary": {"message": planted.texts(path.name)[0]}},
                path.name,
            )
        elif path.name != "versions.json":  # whose members are all versions
            planted.into_json(document, f"{name}/{path.name}")
        if path.name == "config_dump.json":
            for option in OPTIONS:
                entry = {"section": "global", "mask": "", "level": "basic"}
                value = {"name": option, "value": planted.word(f"option {option}")}
                document.append(entry | value | {"can_update_at_runtime": True})
        dumps[path.name] = json.dumps(document).encode()
    return dumps


def archive_with(
    runs: Path, systems: dict[str, dict[str, bytes]], run_id: str = "perf-20261121-000001"
) -> Path:
    """A run on clusters, sealed, with their dumps as they were captured."""
    made = make_run(runs, run_id=run_id)
    clusters = tuple(Cluster(name=name, ceph_conf=f"/{name}") for name in systems)
    plan = made.plan.model_copy(update={"clusters": clusters})
    writer = RunWriter.reopen(made.path, session=SESSION)
    writer.extend(plan)
    for name, dumps in systems.items():
        writer.write_system("start", name, dumps)
        writer.write_system("end", name, dumps)
    writer.seal(RunStatus.COMPLETE, ended_at=CREATED)
    writer.close()
    return made.path


def test_every_page_of_several_runs_lists_what_was_removed(
    leadline: Leadline, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    document = json.dumps({"mgr": {"password": "Hunter2"}}).encode()
    redacted = archive_with(runs, {"c": {"config.json": document}}, "perf-20261121-000001")
    clean = archive_with(runs, {"c": {"config.json": b"{}"}}, "perf-20261121-000002")
    pages = {
        "compare": ("compare", clean, redacted),
        "rank": ("rank", redacted),
        "recommend": ("recommend", redacted, "--for", "database"),
        "scale": ("scale", clean, redacted),
    }
    for name, words in pages.items():
        page = leadline(*words, "--format", "markdown").out
        _, heading, section = page.partition("## Redactions")
        assert heading, f"{name}: {page}"
        assert f"Removed as secrets from the documents of {redacted.name}: 2 values." in section
        assert "mgr.password" in section, name
        assert f"documents of {clean.name}" not in section, name
    assert "Redactions" not in leadline("rank", clean, "--format", "markdown").out


def test_forecasts_of_a_cluster(
    search: Search, planted: Planted, inputs: Path, tmp_path: Path
) -> None:
    (inputs / "c").mkdir()
    for file, content in planted_ceph(planted, CEPH[0]).items():
        (inputs / "c" / file).write_bytes(content)
    table = inputs / "curve.csv"
    levels = ((1, 3200), (4, 10700), (16, 18300), (32, 19300))
    table.write_text("\n".join((HEAD, *rows("", levels, target="rbd_r3"))) + "\n")
    search("import", "table", table, "--run", "study", "--inventory", inputs / "c")
    asked = {
        "run": ("study", "--set", "replicas=2"),
        "errors": ("--validate", "study"),
        "bounds": ("--from-inventory", inputs / "c"),
    }
    for name, words in asked.items():
        page = tmp_path / f"{name}.html"
        for output in ("text", "json"):
            search("predict", *words, "--details", "--format", output)
        search("predict", *words, "-o", page)
        search("verify", page)
        # Bounds are of the folder, which has no list of what was removed.
        assert ("Redactions" in page.read_text("utf-8")) is (name != "bounds")
    assert search.files() > 10


def test_objects_of_kubernetes_clusters(
    search: Search, planted: Planted, inputs: Path, tmp_path: Path
) -> None:
    captured = {}
    for name in KUBERNETES:
        plant_kubernetes(planted, name, inputs / name)
        given = ("inventory", "--from-dir", inputs / name)
        for output in ("text", "json", "markdown"):
            search(*given, "--format", output, status=(0, 4))
        search(*given, "--save", tmp_path / "saved" / name, status=(0, 4))
        captured[name] = dict(read_folder(inputs / name).dumps)
    run = archive_with(tmp_path / "runs", captured)
    read_with_every_verb(search, run, tmp_path / "pages")
    assert search.files() > 20 * len(KUBERNETES)


def plant_kubernetes(planted: Planted, name: str, folder: Path) -> None:
    """Copy the objects of a cluster, and add objects with secrets."""
    shutil.copytree(CLUSTERS / name, folder)
    for kind in ("StorageClass", "CephCluster", "DiskPool", "Setting", "Node"):
        version = {
            "StorageClass": "storage.k8s.io/v1", "CephCluster": "ceph.rook.io/v1",
            "DiskPool": "openebs.io/v1beta2", "Setting": "longhorn.io/v1beta2", "Node": "v1",
        }[kind]  # fmt: skip
        where = f"{name}/{kind}"
        item = {"apiVersion": version, "kind": kind, "metadata": {"name": "planted"}}
        item |= {"provisioner": "x.csi"} if kind == "StorageClass" else {}
        item["spec"] = planted.into_json({"url": f"https://u:{planted.word(where)}@h/"}, where)
        (folder / f"planted-{kind.lower()}.json").write_text(json.dumps(item))
    map_of = {"apiVersion": "v1", "kind": "ConfigMap"}
    lines = "\n".join(planted.texts(f"{name}/ConfigMap"))
    data = {"ceph.conf": lines, "x": planted.texts(f"{name}/json")[12]}
    named = {"metadata": {"name": "rook-config-override", "namespace": "rook-ceph"}, "data": data}
    (folder / "planted-map.json").write_text(json.dumps(map_of | named))


def planted_fio(planted: Planted, source: Path) -> bytes:
    """fio's output with secrets: messages before the JSON, options, and strings between them."""
    noise = "\n".join(f"fio: {line}" for line in planted.texts("fio's messages"))
    document = json.loads(source.read_bytes())
    options = document.setdefault("global options", {})
    for name in ("http_pass", "http_s3_key", "http_swift_auth_token", "http_s3_sessiontoken"):
        options[name] = planted.word(f"option {name}")
    options["description"] = f"see https://u:{planted.word('description')}@host/"
    document["jobs"][0]["job options"]["http_pass"] = planted.word("job option")
    return f"{noise}\n{json.dumps(document, indent=2)}".encode()


def _figures(content: bytes) -> list[object]:
    jobs = parse_fio_json(content).jobs
    return [operation.metrics() for job in jobs for operation in job.operations]


def test_results_of_other_tools(
    search: Search, planted: Planted, inputs: Path, tmp_path: Path
) -> None:
    source = recorded_output("randread-4k-qd1") / "1"
    source = source / "fio.json" if source.is_dir() else recorded_output("randread-4k-qd1")
    content = planted_fio(planted, source)
    (inputs / "a.json").write_bytes(content)
    assert _figures(redact_document(content)) == _figures(source.read_bytes())
    folder = RECORDED.parent / "imports"
    imported = 1
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".txt", ".csv", ".out", ".log", ".html") or "hostile" in path.parts:
            continue
        lines = path.read_bytes().decode("utf-8", "replace")
        text = "\n".join([lines, *planted.texts(str(path.relative_to(folder)))])
        (inputs / f"{imported:03d}-{path.name}").write_text(text)
        imported += 1
    assert imported > 10
    search("import", "auto", inputs, "--run", "foreign", status=(0, 1))
    for run in sorted(path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()):
        read_with_every_verb(search, run, tmp_path / "pages")
    assert any(Run(run).redactions.redactions for run in (tmp_path / "runs").iterdir())
    assert search.files() > 20
    search("import", "fio", inputs / "a.json", "--run", "foreign", status=(2, 3))


def test_a_run_with_programs_that_print_their_environment(
    search: Search,
    planted: Planted,
    inputs: Path,
    tmp_path: Path,
    stub_fio: Callable[..., None],
) -> None:
    """The program called fio prints its environment, its arguments, the command lines of all
    processes, and secrets."""
    output = recorded_output("randread-4k-qd1")
    output = output if output.is_file() else output / "1" / "fio.json"
    (inputs / "fio.json").write_bytes(planted_fio(planted, output))
    (inputs / "stderr").write_text("\n".join(planted.texts("fio's stderr")))
    seen = tmp_path / "seen"
    stub_fio(
        f'{{ env; echo "$@"; tr "\\0" " " < /proc/$PPID/cmdline; }} > {seen}.$$\n'
        f"env >&2; cat {inputs}/stderr >&2\n"
        f'cp {inputs}/fio.json "$output"\n'
        'cat "$PWD"/*.fio >&2\n'
    )
    target = tmp_path / "target"
    target.mkdir()
    job_file = inputs / "own.fio"
    comment = "\n".join(f"# {line}" for line in planted.texts("a job file")[:1])
    job_file.write_text(
        f"{comment}\n[job]\nrw=randread\nbs=4k\nsize=64m\nruntime=1\ntime_based=1\n"
        f"; password={planted.word('a job file')}\n"
    )
    comments = [f"# {line}" for text in planted.texts("a plan") for line in text.splitlines()]
    plan = inputs / "plan.yaml"
    plan.write_text(
        "\n".join(comments)
        + f"\ndescription: 'uses https://u:{planted.word('description')}@host/'\n"
        f"targets: ['dir:{target}']\nrepeats: 1\nprefill: false\nworkloads:\n"
        "  - {name: read, pattern: randread, block_size: 4k, size: 1M, runtime: 1s}\n"
        f"  - {{name: own, job_file: {job_file}}}\n"
    )
    search("check", plan)
    search("run", plan, status=(0, 1, 4))
    assert list(tmp_path.glob("seen.*"))
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    read_with_every_verb(search, run, tmp_path / "pages", whole=True)
    assert Run(run).redactions.redactions
    search("clean")
    search("scrub", run)
    # A program that fails: what it says last is quoted in the error.
    assert search.files() > 20


def test_an_error_that_quotes_a_program(
    search: Search,
    planted: Planted,
    inputs: Path,
    tmp_path: Path,
    stub_fio: Callable[..., None],
) -> None:
    secret = planted.word("the last line of stderr")
    (inputs / "said").write_text(f"cannot log in with password={secret} at https://u:{secret}@h/")
    stub_fio(f"cat {inputs}/said >&2; exit 1")
    (tmp_path / "target").mkdir()
    where = ("--target", f"dir:{tmp_path / 'target'}", "--profile", "quick", "--repeats", "1")
    said = search("run", *where, "--no-prefill", "--size", "1M", "--runtime", "1s", status=(1, 4))
    run = next(path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    record = next(run.glob(f"{layout.TRIALS}/*/{layout.TRIAL_RECORD}")).read_text()
    assert "[redacted:" in record
    assert said.err
    search("show", run)
    search("show", f"password={planted.word('an argument')}", status=(2,))
    assert search.files()


# What a file of an archive is written from; each goes through one of two functions.
FILES = (
    layout.FIO_OUTPUT, layout.JOB_FILE, layout.STDERR, layout.CLUSTER, layout.RESOURCES,
    layout.CEPH_COUNTERS, layout.ZPOOL_IOSTAT, layout.ZFS, layout.IMAGE_COUNTERS,
    layout.MOUNT_COUNTERS, layout.BLOCK_REQUESTS, layout.NEIGHBOUR_JOB_FILE, "bench.json",
    "rados-bench-1-1.json", "rbd-bench-1.txt", "zfs-stream.jsonl", "randread_iops.1.log",
    "volume-1.fio.json", "anything.at.all",
)  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [layout.TRIALS, layout.PREFILL])
def test_every_file_that_an_engine_or_a_watch_leaves(
    planted: Planted, tmp_path: Path, name: str, place: str
) -> None:
    plan = small_plan()
    writer = RunWriter.create(
        tmp_path / "run", plan=plan, plan_as_given=b"", created_at=CREATED, session=SESSION
    )
    document = planted.into_json({"n": 1}, name)
    lines = [*planted.texts(name), json.dumps(document), json.dumps(document, indent=1)]
    with writer.staged(f"{place}/x") as folder:
        (folder / name).write_text("\n".join(lines))
    writer.close()
    kept = (writer.path / place / "x" / name).read_text()
    assert planted.found_in(kept) == []
    assert kept.count("[redacted:") > 20


def test_json_stays_json_with_the_same_numbers(planted: Planted) -> None:
    for path in sorted(RECORDED.rglob("fio.json"))[:3]:
        document = json.loads(path.read_bytes())
        numbers = _numbers(document)
        planted.into_json(document, path.name)
        for indent in (None, 1, 2):
            kept = redact_document(json.dumps(document, indent=indent).encode())
            assert _numbers(json.loads(kept))[: len(numbers)] == numbers
            text = kept.decode()
            assert planted.found_in(text) == []


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for member in value.values() for number in _numbers(member)]
    if isinstance(value, list):
        return [number for member in value for number in _numbers(member)]
    return [value] if isinstance(value, int | float) else []


def test_daemons_of_a_lab_get_no_secret(search: Search, planted: Planted, tmp_path: Path) -> None:
    """The whole environment of a process that is started as a lab's daemons are, and its log."""
    log = tmp_path / "daemon.log"
    environment = processes.environment(tmp_path, "token")
    command = [
        "sh",
        "-c",
        "env; tr '\\0' '\\n' < /proc/$$/environ; tr '\\0' ' ' < /proc/$$/cmdline",
    ]
    pid = processes.start(command, folder=tmp_path, output=log, environment=environment)
    os.waitpid(pid, 0)
    assert f"{processes.FOLDER_VARIABLE}={tmp_path}" in log.read_text()
    assert search.files()
