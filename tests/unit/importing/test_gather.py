"""Which importer takes a file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.formats.importer import importer
from leadline.formats.result import EngineOutput
from leadline.importing.gather import HEAD_BYTES, gather
from tests.conftest import ROOT

RESULT = ROOT / "tests" / "recorded" / "quick" / "randread-4k-qd1" / "fio.json"
PROGRESS = b"\rJobs: 1 (f=1): [r(1)][10.0%][r=1MiB/s][r=1 IOPS][eta 00m:00s]"


@pytest.mark.parametrize("noise", [PROGRESS, b"ok: [host]\n", b"{ set -x; }\n"])
def test_json_behind_a_long_text(tmp_path: Path, noise: bytes) -> None:
    content = noise * (2 * HEAD_BYTES // len(noise)) + b"\n" + RESULT.read_bytes()
    for name in ("a.out", "b.json"):
        (tmp_path / name).write_bytes(content)
    gathered = gather("auto", [tmp_path])
    assert [bundle.importer.kind for bundle in gathered.bundles] == ["fio-json", "fio-json"]
    assert not gathered.refused
    for bundle in gathered.bundles:
        (result,) = importer("fio-json").read(bundle.contents())
        assert isinstance(result.output, EngineOutput)
        (job,) = result.output.jobs
        assert job.name == "randread"


def test_a_long_text_without_a_result_is_left(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"ok: [host]\n" * (2 * HEAD_BYTES))
    gathered = gather("auto", [tmp_path])
    assert [refused.file for refused in gathered.refused] == ["log"]
    assert not gathered.bundles
