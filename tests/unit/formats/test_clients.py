"""Concurrent clients of one trial, merged from their own files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leadline.formats.clients import read_results
from leadline.formats.result import EngineOutput, FormatError, NoteKind, by_name
from leadline.metrics import Op
from tests.conftest import RECORDED

OUTPUT = (RECORDED / "randread-4k-qd1" / "fio.json").read_bytes()


def changed(**options: str) -> bytes:
    document: Any = json.loads(OUTPUT)
    document["jobs"][0]["job options"] |= options
    return json.dumps(document).encode()


def output(contents: dict[str, bytes], absent: tuple[str, ...] = ()) -> EngineOutput:
    clients = [name.removesuffix(".json") for name in contents]
    (result,) = read_results("fio-json", contents, clients, absent)
    assert isinstance(result.output, EngineOutput)
    return result.output


def test_rates_are_added_and_percentiles_come_from_the_merged_histogram() -> None:
    (alone,) = by_name(output({"a.json": OUTPUT}).jobs).values()
    (merged,) = by_name(output({"a.json": OUTPUT, "b.json": changed(name="other")}).jobs).values()
    (one,), (both,) = alone, merged
    assert both.iops == pytest.approx(2 * one.iops)
    assert both.total_ios == 2 * one.total_ios
    assert one.histogram is not None
    assert both.histogram is not None
    assert both.histogram.count == 2 * one.histogram.count
    assert both.percentile_s(0.99) == one.percentile_s(0.99)


def test_each_job_has_its_client_as_host() -> None:
    jobs = output({"vm-1.json": OUTPUT, "vm-2.json": OUTPUT}).jobs
    assert [job.host for job in jobs] == ["vm-1", "vm-2"]
    assert len({job.name for job in jobs}) == 1
    assert all(operation.op is Op.READ for job in jobs for operation in job.operations)


def test_a_missing_client_is_noted() -> None:
    notes = output({"vm-1.json": OUTPUT}, absent=("vm-2", "unknown")).notes
    missing = [note for note in notes if note.kind is NoteKind.MISSING_CLIENT]
    assert [note.where for note in missing] == ["vm-2", "unknown"]
    assert missing[0].fact == "1 of 3 clients have a result"


def test_clients_that_did_other_work_are_refused_by_name() -> None:
    with pytest.raises(FormatError, match="a and b ran other work") as caught:
        output({"a.json": OUTPUT, "b.json": changed(bs="64k")})
    assert "bs: 4k, 64k" in caught.value.fact
    assert caught.value.context == ("a.json", "b.json")
    assert caught.value.condition == "unreadable-result"


@pytest.mark.parametrize(("content", "condition"), [(b"", "empty-result")])
def test_a_client_without_figures_leaves_the_trial_without(content: bytes, condition: str) -> None:
    with pytest.raises(FormatError, match="client b: ") as caught:
        output({"a.json": OUTPUT, "b.json": content})
    assert caught.value.condition == condition
    assert caught.value.context[0] == "b.json"


def test_files_of_no_clients_are_read_as_ever() -> None:
    (result,) = read_results("fio-json", {"a.json": OUTPUT})
    assert isinstance(result.output, EngineOutput)
    assert result.output.jobs[0].host == ""
