"""Parameters of the ZFS module on a folder of files; the real ones are in
tests/guest/test_zfs_settings.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline import errors
from leadline.errors import LeadlineError
from leadline.settings.parameter import Host
from leadline.settings.zfs_parameter import ZfsModuleParameter

ARC = "name                            type data\nc_min  4    67108864\nc_max  4    1073741824\n"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "parameters"
    folder.mkdir()
    values = {
        "zfs_txg_timeout": "5",
        "zfs_dirty_data_max": "268435456",
        "zfs_arc_max": "1073741824",
        "zfs_arc_min": "0",
        "zfs_arc_shrink_shift": "0",
        "zvol_threads": "0",
    }
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")
    (folder / "zvol_threads").chmod(0o444)
    (tmp_path / "arcstats").write_text(ARC)
    return folder


def parameter(module: Path, name: str) -> ZfsModuleParameter:
    return ZfsModuleParameter(name, Host(), module, module.parent / "arcstats")


def test_a_size_is_written_in_bytes_and_restored(module: Path) -> None:
    dirty = parameter(module, "zfs_dirty_data_max")
    dirty.check(["1GiB"])
    before = dirty.read()
    dirty.write("1GiB")
    assert (module / "zfs_dirty_data_max").read_text() == "1073741824\n"
    assert dirty.fault("1GiB") == ""
    assert "it holds '1073741824'" in dirty.fault("2GiB")
    dirty.restore(before)
    assert dirty.read() == before == "268435456"


@pytest.mark.parametrize(
    ("name", "fact", "hint"),
    [
        ("zfs_txg_timeot", "has no parameter 'zfs_txg_timeot'", "did you mean 'zfs_txg_timeout'?"),
        ("nothing", "has no parameter 'nothing'", "`ls "),
        ("zvol_threads", "reads 'zvol_threads' only when it is loaded", "modprobe.d"),
        ("zfs_arc_min", "zfs_arc_min is 0, the module's default", "echo 67108864 > "),
        ("zfs_arc_shrink_shift", "no effect when it is set again", "echo VALUE > "),
    ],
)
def test_a_parameter_that_cannot_be_swept_is_refused(
    module: Path, name: str, fact: str, hint: str
) -> None:
    with pytest.raises(LeadlineError) as caught:
        parameter(module, name).check(["1"])
    assert caught.value.kind is errors.SETTING_INVALID
    assert fact in caught.value.fact
    assert hint in (caught.value.hint or "")


def test_a_limit_that_the_module_ignores_is_not_in_effect(module: Path) -> None:
    limit = parameter(module, "zfs_arc_max")
    limit.check(["1MiB"])
    limit.write("1MiB")
    assert limit.fault("1MiB") == "the module ignores it, and 1073741824 stays in effect"
    (module.parent / "arcstats").write_text(ARC.replace("1073741824", "1048576"))
    assert limit.fault("1MiB") == ""
    # An unknown limit is no fault.
    (module.parent / "arcstats").unlink()
    assert limit.fault("1MiB") == ""


def test_without_a_module_no_parameter_can_be_set(tmp_path: Path) -> None:
    with pytest.raises(LeadlineError) as caught:
        ZfsModuleParameter("zfs_txg_timeout", Host(), tmp_path / "none").check(["1"])
    assert caught.value.kind is errors.ZFS_MISSING
    assert "module is not loaded" in caught.value.fact
