"""`leadline predict`: forecasts of a run, of a change, of another system, and bounds."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive.records import RunStatus
from leadline.archive.writer import RunWriter
from leadline.plan.models import Cluster
from tests.cli.conftest import Leadline, answer, refused, rows
from tests.conftest import RECORDED, unpack
from tests.golden.archive_builder import CREATED, make_run
from tests.unit.archive.test_archive import SESSION

CEPH = RECORDED.parent / "ceph-multi-az"
# A closed network of 100 us without load and four servers that saturates near 20,000 IOPS.
SATURATING = ((1, 3200), (2, 6100), (4, 10700), (8, 15600), (16, 18300), (32, 19300))


def test_a_run_as_it_is(leadline: Leadline, imported: Callable[..., None]) -> None:
    imported(*rows("", SATURATING))
    found = answer(leadline("predict", "study", "--format", "json"))
    assert found["schema"] == "leadline/predict/1"
    assert (found["runs"], found["changes"], found["coverage"]) == (["study"], [], 0.9)
    assert [one["in_flight"] for one in found["forecasts"]] == [1, 2, 4, 8, 16, 32]
    for one, (_, iops) in zip(found["forecasts"], SATURATING, strict=True):
        assert one["layer"] == "calibrated"
        assert one["measured"]["iops"] == pytest.approx(iops, rel=0.01)
        expected = one["expected"]["iops"]
        assert expected["low"] <= iops <= expected["high"]
        assert one["expected"] == one["modelled"], "nothing changes"
    loads = [one["in_flight"] for one in found["between"]]
    assert loads == sorted(loads)
    assert not set(loads) & {1, 2, 4, 8, 16, 32}


def test_a_left_out_level_is_within_its_interval(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("", SATURATING[:2] + SATURATING[3:]))
    found = answer(leadline("predict", "study", "--set", "depth=4", "--format", "json"))
    assert found["changes"] == ["depth=4"]
    (one,) = found["forecasts"]
    assert (one["level"], one["in_flight"]) == ("iodepth=2", 4), "from the nearest level"
    expected = one["expected"]["iops"]
    assert expected["low"] <= 10_700 <= expected["high"]
    assert expected["high"] < 2 * expected["low"]


def test_text_and_page_have_the_same_answer(
    leadline: Leadline, imported: Callable[..., None], tmp_path: Path
) -> None:
    imported(*rows("", SATURATING))
    headline = answer(leadline("predict", "--format", "json"))["headline"]
    for form in ("text", "markdown"):
        said = leadline("predict", "study", "--format", form)
        assert said.status == 0
        assert headline in " ".join(said.out.split())
    assert "mean latency" in leadline("predict", "study", "--details").out
    page = tmp_path / "forecast.html"
    assert leadline("predict", "study", "-o", page).status == 0
    assert headline in page.read_text("utf-8")


def test_the_page_is_verified_against_its_archive(
    leadline: Leadline, imported: Callable[..., None], tmp_path: Path
) -> None:
    imported(*rows("", SATURATING))
    page = tmp_path / "forecast.html"
    assert leadline("predict", "study", "--set", "depth=4", "-o", page).status == 0
    said = leadline("verify", page)
    assert said.status == 0, said.out
    assert re.search(r"forecast\.html: [1-9]\d+ numbers checked", said.out)
    text = page.read_text("utf-8")
    page.write_text(re.sub(r"(?<=<h1>)(.*?)\d", r"\g<1>7", text, count=1), "utf-8")
    assert leadline("verify", page).status == 1


# --- another system -----------------------------------------------------------------------------


def test_a_run_against_the_forecast_from_another(
    leadline: Leadline, imported: Callable[..., None], tmp_path: Path
) -> None:
    imported(*rows("old", SATURATING), *rows("new", SATURATING, times=1.01))
    words = ("predict", "study-old", "--against", "study-new")
    found = answer(leadline(*words, "--format", "json"))
    assert found["runs"] == ["study-old", "study-new"]
    assert (found["system"], found["against"]) == ("old", "new")
    for one in found["forecasts"]:
        if one["layer"] == "calibrated":
            assert one["within"]["iops"] is True
        assert one["observed"]["iops"] == pytest.approx(1.01 * one["measured"]["iops"], rel=1e-3)
    page = tmp_path / "forecast.html"
    assert leadline(*words, "-o", page).status == 0
    assert leadline("verify", page).status == 0


def test_a_run_with_nothing_in_common(leadline: Leadline, imported: Callable[..., None]) -> None:
    imported(*rows("old", SATURATING), *rows("new", SATURATING))
    imported(*rows("", SATURATING, target="x"), *rows("", SATURATING, target="y"), run="other")
    shown = refused(leadline("predict", "other", "--against", "study-new"), 6, "not-comparable")
    assert "no target and workload in common" in shown


def test_another_system_that_is_not_there(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("", SATURATING))
    refused(leadline("predict", "study", "--against", "moon"), 2, "run-not-found")
    refused(leadline("predict", "study", "--cluster", "moon"), 2, "usage")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of a run on four labs."""
    folder = tmp_path_factory.mktemp("lab")
    unpack(RECORDED.parent / "predict-lab" / "run.tar.xz", folder)
    (path,) = folder.iterdir()
    return path


def test_the_cluster_to_forecast_from_is_named_where_there_are_several(
    leadline: Leadline, lab: Path
) -> None:
    shown = refused(leadline("predict", lab, "--against", "one-ms"), 2, "usage")
    assert "half-ms" in shown
    assert "--cluster" in shown
    shown = refused(leadline("predict", lab, "--against", "no-ms"), 2, "usage")
    assert "neither a cluster of run" in shown


# --- what cannot be forecast --------------------------------------------------------------------


def test_one_load_level_names_what_cannot_be_identified(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("", SATURATING[:1]))
    shown = refused(leadline("predict", "study"), 6, "nothing-to-predict")
    assert "capacity, delay without load and number of servers cannot be identified" in shown
    assert "measure three depths" in shown


def test_two_load_levels_forecast_no_change(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("", (SATURATING[0], SATURATING[4])))
    shown = refused(leadline("predict", "study", "--set", "depth=64"), 6, "nothing-to-predict")
    assert "two load levels" in shown


def test_no_trusted_cell(leadline: Leadline, imported: Callable[..., None]) -> None:
    """More I/Os in flight than were requested: the audit refuses every level."""
    lines = [line.rpartition(",")[0] + ",900" for line in rows("", SATURATING)]
    imported(*lines)
    shown = refused(leadline("predict", "study"), 6, "nothing-to-predict")
    assert "the audit refuses every level" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "depth"), "is not key=value"),
        (("--set", "dephts=3"), "did you mean 'depth'"),
        (("--set", "depth=0"), "depth=0 is invalid"),
        (("--set", "inter_zone_rtt=1"), "the unit is missing"),
        (("--set", "replicas=2", "--set", "ec=2+1"), "exclude each other"),
        (("--set", "depth=1", "--set", "depth=2"), "names depth twice"),
        (("--leave", "cluster"), "--leave needs --validate"),
        (("--validate", "--set", "depth=4"), "--validate and --set exclude each other"),
        (("--against", "x", "--from-inventory", str(CEPH)), "exclude each other"),
        (("--format", "csv"), "csv"),
    ],
)
def test_requests_that_cannot_be_understood(
    leadline: Leadline, imported: Callable[..., None], options: tuple[str, ...], said: str
) -> None:
    imported(*rows("", SATURATING))
    assert said in refused(leadline("predict", "study", *options), 2, "usage")


def test_two_runs_need_against(leadline: Leadline, imported: Callable[..., None]) -> None:
    imported(*rows("a", SATURATING), *rows("b", SATURATING))
    shown = refused(leadline("predict", "study-a", "study-b"), 2, "usage")
    assert "leadline predict study-a --against study-b" in shown


# --- bounds of an inventory ---------------------------------------------------------------------


def test_an_inventory_gives_bounds_alone(leadline: Leadline, tmp_path: Path) -> None:
    found = answer(leadline("predict", "--from-inventory", CEPH, "--format", "json"))
    assert found["runs"] == []
    assert {one["layer"] for one in found["forecasts"]} == {"bounds"}
    assert {"rbd_r3", "rbd_r2", "ec21_data"} <= {one["target"] for one in found["forecasts"]}
    assert all(one["refusals"] for one in found["forecasts"])
    text = leadline("predict", "--from-inventory", CEPH).out
    assert "Bounds only" in text
    page = tmp_path / "bounds.html"
    assert leadline("predict", "--from-inventory", CEPH, "-o", page).status == 0
    assert "Bounds" in page.read_text("utf-8")


def test_a_page_of_bounds_is_verified_against_its_dumps(
    leadline: Leadline, imported: Callable[..., None], tmp_path: Path
) -> None:
    dumps = tmp_path / "dumps"
    shutil.copytree(CEPH, dumps)
    imported(*rows("", SATURATING, target="rbd_r3"))
    for name, words in (("alone", ()), ("run", ("study",))):
        page = tmp_path / f"{name}.html"
        asked = ("--from-inventory", dumps, "--set", "osds=24")
        assert leadline("predict", *words, *asked, "-o", page).status == 0
        said = leadline("verify", page)
        assert said.status == 0, said.out
        assert re.search(rf"{name}\.html: [1-9]\d+ numbers checked", said.out)
        pools = dumps / "osd_dump.json"
        kept = pools.read_text()
        pools.write_text(re.sub(r'"size": ?3', '"size": 1', kept))
        assert leadline("verify", page).status == 1
        pools.write_text(kept)
    shutil.rmtree(dumps)
    assert "the dumps of the page are not here" in refused(
        leadline("verify", tmp_path / "alone.html"), 2, "dumps-invalid"
    )


def test_an_inventory_bounds_files_that_are_created_on_cephfs(leadline: Leadline) -> None:
    found = answer(leadline("predict", "--from-inventory", CEPH, "--format", "json"))
    files = [one for one in found["forecasts"] if one["workload"] == "file creation"]
    assert {one["target"] for one in files} == {"cephfs_r3", "cephfs_r2"}
    for one in files:
        assert (one["level"], one["in_flight"]) == ("", None)
        assert one["bound"]["capacity_iops"] == pytest.approx(100_000), "one rank"
        assert one["bound"]["capacity_of"] == "mds"
        assert one["bound"]["capacity_bps"] is None
    assert "file creation" in leadline("predict", "--from-inventory", CEPH, "--details").out


def files_created(tmp_path: Path, files_per_s: float) -> Path:
    """What fio writes of files that it created."""
    latency = {"min": 1000, "max": 90000, "mean": 40000.0, "N": 90000}
    read = {
        "io_bytes": 4096 * 90000, "iops": files_per_s, "runtime": 3000, "total_ios": 90000,
        "clat_ns": latency, "lat_ns": latency,
    }  # fmt: skip
    options = {"ioengine": "filecreate", "numjobs": "4", "group_reporting": "1"}
    job = {"jobname": "create", "groupid": 0, "error": 0, "job options": options, "read": read}
    path = tmp_path / f"{files_per_s:.0f}.json"
    path.write_text(json.dumps({"fio version": "fio-3.33", "global options": {}, "jobs": [job]}))
    return path


@pytest.mark.parametrize(("files_per_s", "above"), [(30_000.0, False), (130_000.0, True)])
def test_imported_files_are_bounded_by_the_mds_of_their_cluster(
    leadline: Leadline, tmp_path: Path, files_per_s: float, above: bool
) -> None:
    given = ("--target", "cephfs_r3", "--cluster", "c", "--inventory", f"c={CEPH}")
    made = files_created(tmp_path, files_per_s)
    said = leadline("import", "fio", made, *given, "--run", "files")
    assert said.status in (0, 1), said.err
    (one,) = answer(leadline("predict", "files", "--format", "json"))["forecasts"]
    assert one["bound"]["capacity_of"] == "mds"
    assert [reason["code"] for reason in one["refusals"]] == ["no-blocks"]
    # The audit refuses what no MDS can do.
    assert one["measured"] == ({} if above else {"iops": files_per_s})
    codes = [
        found["code"]
        for found in json.loads(leadline("audit", "files", "--format", "json").out)["findings"]
    ]
    assert ("exceeds-ceiling" in codes) is above
    assert "MDS" in leadline("predict", "files").out


def test_a_change_of_an_inventory_moves_its_bounds(leadline: Leadline) -> None:
    def floors(*settings: str) -> dict[tuple[str, str, str], float]:
        words = [word for setting in settings for word in ("--set", setting)]
        said = leadline("predict", "--from-inventory", CEPH, *words, "--format", "json")
        return {
            (one["target"], one["workload"], one["op"]): one["bound"]["floor_s"]
            for one in answer(said)["forecasts"]
        }

    near, far = floors(), floors("inter_zone_rtt=2ms")
    cell = ("rbd_r3", "random 4k", "write")
    assert far[cell] > near[cell] + 0.001


def test_shards_that_no_zone_has_room_for(leadline: Leadline) -> None:
    said = leadline("predict", "--from-inventory", CEPH, "--set", "ec=4+2")
    assert "EC 4+2 cannot be placed on 3 zones" in refused(said, 2, "usage")


def test_an_inventory_without_the_pools_of_the_run(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("", SATURATING))
    said = leadline("predict", "study", "--from-inventory", CEPH)
    assert "has none of the pools of run study" in refused(said, 2, "facts-invalid")


def test_the_inventory_of_another_cluster(leadline: Leadline, tmp_path: Path) -> None:
    made = make_run(tmp_path / "runs")
    plan = made.plan.model_copy(update={"clusters": (Cluster(name="c", ceph_conf="/c"),)})
    writer = RunWriter.reopen(made.path, session=SESSION)
    writer.extend(plan)
    single = RECORDED.parent / "ceph-single-az"
    dumps = {path.name: path.read_bytes() for path in single.glob("*.json")}
    writer.write_system("start", "c", dumps)
    writer.seal(RunStatus.COMPLETE, ended_at=CREATED)
    writer.close()
    said = leadline("predict", made.path, "--from-inventory", CEPH)
    assert "is the inventory of another cluster than c" in refused(said, 2, "facts-invalid")


def test_an_inventory_of_an_imported_run_is_bound_to_its_pool(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("", SATURATING, target="rbd_r3"))
    words = ("predict", "study", "--from-inventory", CEPH, "--format", "json")
    for one in answer(leadline(*words))["forecasts"]:
        assert one["bound"]["floor_s"] > 0


def test_a_folder_without_an_inventory(leadline: Leadline, tmp_path: Path) -> None:
    refused(leadline("predict", "--from-inventory", tmp_path), 2, "dumps-invalid")


# --- validation ---------------------------------------------------------------------------------


def test_left_out_levels_are_forecast_and_the_errors_shown(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("", SATURATING))
    found = answer(leadline("predict", "--validate", "study", "--format", "json"))
    assert found["forecasts"] == []
    first = found["errors"][0]
    assert (first["source"], first["left_out"], first["metric"]) == ("study", "depth", "iops")
    assert first["cells"] + first["refused"] == len(SATURATING)
    assert 0 <= first["median"] <= first["p90"] <= first["worst"]
    text = leadline("predict", "--validate", "study").out
    assert "load levels left out" in text


@pytest.mark.parametrize("leave", ["depth", "cluster"])
def test_a_page_of_errors_is_verified_against_its_archives(
    leadline: Leadline, imported: Callable[..., None], tmp_path: Path, leave: str
) -> None:
    imported(*rows("a", SATURATING), *rows("b", SATURATING))
    page = tmp_path / "errors.html"
    words = ("predict", "--validate", "study-a", "study-b", "study-a", "--leave", leave)
    assert leadline(*words, "-o", page).status == 0
    said = leadline("verify", page)
    assert said.status == 0, said.out
    assert len(said.out.splitlines()) == 4, "two archives, the page, the verdict"
    first = tmp_path / "runs" / "study-a" / "trials" / "t0001-1" / "derived.json"
    first.write_text(re.sub(r"\d+\.\d+", "12345.5", first.read_text("utf-8"), count=1), "utf-8")
    assert leadline("verify", page).status == 1


@pytest.mark.parametrize("leave", ["depth", "target", "cluster"])
def test_nothing_to_leave_out(
    leadline: Leadline, imported: Callable[..., None], leave: str
) -> None:
    imported(*rows("", SATURATING[:2]))
    said = leadline("predict", "--validate", "study", "--leave", leave)
    assert "can be left out and forecast" in refused(said, 6, "nothing-to-predict")


def test_targets_and_clusters_are_left_out(
    leadline: Leadline, imported: Callable[..., None]
) -> None:
    imported(*rows("a", SATURATING), *rows("b", SATURATING), *rows("a", SATURATING, target="other"))
    for leave, names in (("target", ["study-a"]), ("cluster", ["study-a", "study-b"])):
        words = ("predict", "--validate", *names, "--leave", leave, "--format", "json")
        (first, *_) = answer(leadline(*words))["errors"]
        assert first["cells"] + first["refused"] == len(SATURATING)
