"""`leadline inventory`: what it shows of saved dumps, what it writes, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Leadline, refused
from tests.conftest import RECORDED

DUMPS = RECORDED.parent
FOLDERS = ("ceph-multi-az", "ceph-single-az", "ceph-autoscaler-on")


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test here finds a cluster of this machine."""
    monkeypatch.delenv("CEPH_CONF", raising=False)
    monkeypatch.setenv("LEADLINE_LABS", str(tmp_path / "labs"))
    monkeypatch.setattr("leadline.cli.options.DEFAULT_CONF", tmp_path / "none.conf")


@pytest.mark.parametrize("columns", [80, 110])
@pytest.mark.parametrize("name", FOLDERS)
def test_the_screen_fits(
    leadline: Leadline, monkeypatch: pytest.MonkeyPatch, name: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = leadline("inventory", "--from-dir", DUMPS / name)
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert max(len(line) for line in lines) <= columns
    assert all(line == line.rstrip() for line in lines)
    for heading in (
        "Topology",
        "Pools",
        "Distribution",
        "Placement groups",
        "Encryption",
        "Unknown",
    ):
        assert heading in lines
    assert "None" not in said.out


def test_the_headline_and_the_arithmetic(leadline: Leadline) -> None:
    out = leadline("inventory", "--from-dir", DUMPS / "ceph-multi-az").out
    lines = out.splitlines()
    headline = "Ceph 16.2.15 pacific, HEALTH_OK: 6 OSDs in 6 hosts in 3 zones, 49 % of 24 GiB used."
    assert f"- {headline}" in lines
    assert len(headline.split()) <= 20
    assert ["lab", "6", "100", "600", "384", "64"] in [line.split() for line in lines]
    assert ["az1", "zone", "2"] in [line.split()[:3] for line in lines]
    assert "  └─ host z1-h2  1 OSD, 38 %" in out
    assert "the same pg_num for all 6 pools" in out
    assert "140 reads/s (0.53 MiB/s)" in out
    assert "quorum unchanged for  21 min 11 s" in lines
    scaled = leadline("inventory", "--from-dir", DUMPS / "ceph-autoscaler-on").out
    assert "a and b have the same target ratio (0.49), but computed PGs of 64 and 32" in scaled
    assert "encrypted (secure), source osd.0" in scaled
    assert "mgr_dump.json" in scaled


def test_full_adds_the_settings_from_files(leadline: Leadline) -> None:
    short = leadline("inventory", "--from-dir", DUMPS / "ceph-multi-az").out
    full = leadline("inventory", "--from-dir", DUMPS / "ceph-multi-az", "--full").out
    assert "osd_op_num_shards" not in short
    assert "osd_op_num_shards" in full


def test_markdown_and_json(leadline: Leadline) -> None:
    where = ("inventory", "--from-dir", DUMPS / "ceph-single-az", "--format")
    markdown = leadline(*where, "markdown").out
    assert markdown.startswith("# Ceph cluster ")
    assert "- Ceph 16.2.15 pacific, HEALTH\\_WARN: " in markdown
    assert "| ec21\\_data | EC 2+1 |" in markdown
    answer = json.loads(leadline(*where, "json").out)
    assert answer["schema"] == "leadline/inventory/1"
    assert answer["unfit"] is None
    assert answer["cluster"]["pools"][2]["erasure"] == {
        "profile": "ec21", "k": 2, "m": 1, "plugin": "jerasure",
    }  # fmt: skip
    assert answer["placement"]["disagreements"] == []
    zones = [one for one in answer["distribution"] if one["level"] == "zone"]
    assert all(one["fill"]["low"] <= one["fill"]["mean"] <= one["fill"]["high"] for one in zones)


def test_a_page_and_markdown_with_the_drawn_tree(leadline: Leadline, tmp_path: Path) -> None:
    given = ("inventory", "--from-dir", DUMPS / "ceph-multi-az")
    page = tmp_path / "cluster.html"
    assert leadline(*given, "-o", page).status == 0
    html = page.read_text()
    assert 'class="boxes' in html
    assert "osd.5" in html
    assert 'data-name="cluster.json"' in html
    refused(leadline(*given, "-o", page), 2, "output-unwritable")
    assert leadline(*given, "-o", tmp_path / "cluster.md").status == 0
    drawn = (tmp_path / "cluster-charts" / "tree.svg").read_text()
    assert drawn.count('<rect class="bucket') == 1 + 1 + 3 + 6 + 6
    refused(leadline(*given, "-o", page, "--format", "json"), 2, "usage")


def test_saved_dumps_say_the_same(leadline: Leadline, tmp_path: Path) -> None:
    given = DUMPS / "ceph-autoscaler-on"
    saved = tmp_path / "saved"
    first = leadline("inventory", "--from-dir", given, "--save", saved, "--format", "json")
    assert "dumps written to" in first.err
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == {
        path.name: path.read_bytes() for path in given.iterdir()
    }
    again = json.loads(leadline("inventory", "--from-dir", saved, "--format", "json").out)
    assert again | {"source": ""} == json.loads(first.out) | {"source": ""}


def test_dumps_saved_by_hand_lose_their_secrets_too(leadline: Leadline, tmp_path: Path) -> None:
    folder = tmp_path / "by-hand"
    folder.mkdir()
    for path in (DUMPS / "ceph-multi-az").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    setting = {"section": "mgr", "name": "mgr/dashboard/password", "value": "hunter2", "mask": ""}
    (folder / "config_dump.json").write_text(json.dumps([setting]))
    (folder / "auth_ls.json").write_text('{"key": "hunter2"}')
    said = leadline("inventory", "--from-dir", folder, "--save", tmp_path / "out", "--full")
    assert "mgr/dashboard/password" in said.out
    assert "hunter2" not in said.out
    saved = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert "auth_ls.json" not in saved
    assert not any("hunter2" in text for text in saved.values())


def test_no_cluster_named(leadline: Leadline) -> None:
    told = refused(leadline("inventory"), 2, "cluster-unknown")
    assert "--lab NAME" in told
    assert "--ceph-conf FILE" in told


def test_a_cluster_named_twice(leadline: Leadline, tmp_path: Path) -> None:
    conf = ("--ceph-conf", tmp_path / "ceph.conf")
    assert "--ceph-conf" in refused(leadline("inventory", "--lab", "x", *conf), 2, "usage")
    refused(leadline("inventory", "--from-dir", tmp_path, *conf), 2, "usage")
    refused(leadline("inventory", "--from-dir", tmp_path, "--id", "me"), 2, "usage")


def test_a_lab_that_is_not_there(leadline: Leadline) -> None:
    refused(leadline("inventory", "--lab", "nowhere"), 2, "lab-not-found")


def test_a_configuration_that_is_not_there(
    leadline: Leadline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "ceph.conf"
    assert str(missing) in refused(
        leadline("inventory", "--ceph-conf", missing), 3, "ceph-unreachable"
    )
    monkeypatch.setenv("CEPH_CONF", str(missing))
    assert str(missing) in refused(leadline("inventory"), 3, "ceph-unreachable")


def test_folders_that_hold_no_dumps(leadline: Leadline, tmp_path: Path) -> None:
    told = refused(leadline("inventory", "--from-dir", tmp_path), 2, "dumps-invalid")
    assert "no cluster data" in told
    assert "ceph status --format json > status.json" in told
    refused(leadline("inventory", "--from-dir", tmp_path / "none"), 2, "dumps-invalid")


def test_where_dumps_cannot_be_written(leadline: Leadline, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    given = ("--from-dir", DUMPS / "ceph-multi-az", "--save", tmp_path / "file")
    refused(leadline("inventory", *given), 2, "output-unwritable")
