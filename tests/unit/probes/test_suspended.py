"""Paths in suspended pools, found without touching them; what reports of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.records import Created, Problem
from leadline.connect import programs
from leadline.engines.outcome import with_suspension
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes import zfs
from leadline.runner.ports import Dataset, Device, Folder
from leadline.targets.local import DirectoryTarget, remove_folder

MOUNTS = """\
21 1 254:0 / / rw - ext4 /dev/vda rw
40 21 0:30 / /gone rw - zfs gone rw,xattr
41 40 0:31 / /gone/mine rw - zfs gone/mine rw,xattr
42 21 0:32 / /fine rw - zfs fine rw,xattr
43 40 254:1 / /gone/disk rw - ext4 /dev/vdb rw
"""


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    for pool, state in (("gone", "SUSPENDED"), ("fine", "ONLINE")):
        (tmp_path / "kstats" / pool).mkdir(parents=True)
        (tmp_path / "kstats" / pool / "state").write_text(f"{state}\n")
    monkeypatch.setattr(zfs, "_MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setattr(programs, "_KSTATS", tmp_path / "kstats")


@pytest.mark.parametrize(
    ("path", "pool"),
    [
        ("/gone", "gone"),
        ("/gone/mine/deep/file", "gone"),
        ("/fine/../gone/mine", "gone"),
        ("/gone/disk/file", ""),
        ("/fine/file", ""),
        ("/home", ""),
    ],
)
def test_the_pool_of_a_path(path: str, pool: str) -> None:
    assert zfs.suspended_below(Path(path)) == pool


def test_a_directory_in_a_suspended_pool_is_refused_and_left_alone() -> None:
    target = DirectoryTarget(Target(name="t", url="dir:/gone/mine"))
    needs = Footprint(files={"leadline.0.dat": 1}, span=1, job_file_bytes=0, writes=True)
    assert target.volume() is None
    with pytest.raises(LeadlineError) as caught:
        target.inspect(needs, prefill=True)
    assert caught.value.kind is errors.ZPOOL_UNFIT
    with pytest.raises(LeadlineError, match="SUSPENDED"):
        target.present()
    (left,) = remove_folder(Created(target="t", path="/gone/mine/leadline-r-1", token="1"), "r")
    assert "/gone/mine/leadline-r-1 could not be removed" in left
    assert "zpool clear gone" in left


def test_a_job_that_fails_there_is_reported_why() -> None:
    hung = Problem(code="trial-hung", fact="fio did not end", hint="look at the target")
    for location in (Folder(path=Path("/gone/x")), Dataset(path=Path("/gone/mine"), name="gone/m")):
        reported = with_suspension(hung, location)
        assert reported.code == "trial-hung"
        assert reported.fact.startswith("fio did not end; the pool 'gone' is SUSPENDED")
        assert "zpool clear gone" in (reported.hint or "")
    for other in (Folder(path=Path("/fine/x")), Device(path=Path("/dev/vda"))):
        assert with_suspension(hung, other) == hung
