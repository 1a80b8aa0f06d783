from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from fuzz.mutations import mutated
from fuzz.targets import TARGETS
from leadline.errors import JOB_FILE_INVALID, LeadlineError
from leadline.plan.job_file import (
    Place,
    fio_options,
    fits_job_name,
    misplaced_options,
    parse_job_file,
    read_job_file,
    write_job_file,
)
from tests import hostile_job_files

TWO_AFTER_EACH_OTHER = """\
; a user's own
[global]
ioengine=libaio
runtime=30
ramp_time=5s
time_based
size=1G

[read]   # first
rw=randread
numjobs=4

[write]
stonewall
rw=randwrite
"""


def test_durations_and_size_are_read_and_the_text_is_kept() -> None:
    job = parse_job_file("mine.fio", TWO_AFTER_EACH_OTHER)
    assert job.text == TWO_AFTER_EACH_OTHER
    assert (job.runtime_s, job.ramp_s) == (60, 10)
    assert job.footprint_bytes == 5 << 30
    assert job.writes


def test_jobs_without_stonewall_run_at_once() -> None:
    job = parse_job_file("x", TWO_AFTER_EACH_OTHER.replace("stonewall\n", ""))
    assert (job.runtime_s, job.ramp_s) == (30, 5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nrw=read\n", "[a] has no runtime"),
        ("rw=read\n", "comes before any [section]"),
        ("[global]\nruntime=1\n", "no job section"),
        ("[a]\nruntime=1\nsize=lots\n", "not a size"),
        ("[a]\nruntime=1\nbs=\n", "a value has letters"),
        ("#" * 70_000, "larger than 65536 characters"),
    ],
)
def test_a_job_file_that_cannot_be_bounded_is_refused(text: str, said: str) -> None:
    assert said in refusal(text)


@pytest.mark.parametrize("name", hostile_job_files.refused())
def test_a_job_file_that_would_leave_its_target_is_refused(name: str) -> None:
    text, said = hostile_job_files.refused()[name]
    assert said in refusal(text)


@pytest.mark.parametrize("content", hostile_job_files.as_bytes().values())
def test_a_job_file_that_is_no_utf_8_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(LeadlineError, match="cannot be read") as caught:
        read_job_file(hostile_job_files.write(tmp_path, content))
    assert caught.value.kind is JOB_FILE_INVALID


@pytest.mark.parametrize("name", hostile_job_files.kept())
def test_names_of_jobs_are_no_paths(name: str) -> None:
    text = hostile_job_files.kept()[name]
    for line in write(text).splitlines():
        assert "/" not in line, line
        assert "$" not in line.replace("$jobnum", "").replace("$filenum", "").replace(
            "$jobname", ""
        )
        assert not re.match(r"\[[.-]", line), line


def refusal(text: str) -> str:
    with pytest.raises(LeadlineError) as caught:
        parse_job_file("mine.fio", text)
    assert caught.value.kind is JOB_FILE_INVALID
    return str(caught.value)


def write(text: str, place: Place = Place.FILES) -> str:
    return write_job_file(parse_job_file("mine.fio", text), place)


def test_fio_gets_the_options_and_not_the_text() -> None:
    written = write(TWO_AFTER_EACH_OTHER)
    # Without the comments, and with names of files that no section decides.
    assert (
        re.sub(r"leadline\.[0-9a-f]{8}\.", "leadline.HASH.", written)
        == """\
# Written by Leadline from the options of the user's own job file.

[global]
ioengine=libaio
runtime=30
ramp_time=5s
time_based
size=1G

[read]
rw=randread
numjobs=4
filename_format=leadline.HASH.1.$jobnum.$filenum.dat

[write]
stonewall
rw=randwrite
filename_format=leadline.HASH.2.$jobnum.$filenum.dat
"""
    )


def test_a_device_has_no_names_of_files() -> None:
    text = "[a]\nruntime=1\nfilename_format=mine.$jobnum\n"
    assert "filename_format" not in write(text, Place.DEVICE)
    assert "filename_format=leadline.mine.$jobnum.dat" in write(text)


def test_what_is_written_reads_as_it_was_meant() -> None:
    for text in (TWO_AFTER_EACH_OTHER, TWO_AFTER_EACH_OTHER.replace("\n", "\r\n")):
        job, again = parse_job_file("x", text), parse_job_file("x", write(text))
        assert again.model_copy(update={"text": text}) == job
        assert write(write(text)).splitlines() == write(text).splitlines()


def test_aliases_get_the_name_of_their_option() -> None:
    written = write("[a]\nreadwrite=randread:8\nblocksize=8k\ntimeout=5\nwait_for_previous=1\n")
    assert "rw=randread:8\nbs=8k\nruntime=5\nstonewall=1\n" in written


def test_every_alias_of_a_refused_option_is_refused() -> None:
    named = [
        name
        for refused in fio_options().refused
        for option, alias in refused.options.items()
        for name in (option, alias)
        if name is not None
    ]
    assert {"filename", "fill_fs", "exec_prerun"} <= set(named)
    for name in named:
        assert f"'{name}' is refused" in refusal(f"[a]\nruntime=1\n{name}=1\n")


def test_an_option_is_in_one_list_only() -> None:
    table = fio_options()
    names = [
        name
        for options in (*table.allowed.values(), *(refused.options for refused in table.refused))
        for option, alias in options.items()
        for name in (option, alias)
        if name is not None
    ]
    assert len(names) == len(set(names))
    engines = [
        engine
        for group in (*table.engines.values(), *(each.engines for each in table.refused_engines))
        for engine in group
    ]
    assert len(engines) == len(set(engines))


def test_sections_stay_apart_when_their_names_are_replaced() -> None:
    text = "".join(f"[{name}]\nruntime=1\n" for name in ("a/b", "a_b", "a", "a$b", "a/b"))
    jobs = re.findall(r"^\[(.+)\]$", write(text), re.MULTILINE)
    assert jobs == ["a_b", "a_b-2", "a", "a_b-3", "a_b"]


def test_jobs_of_one_name_share_their_files_and_job_files_do_not() -> None:
    text = "[w]\nruntime=1\n[r]\nruntime=1\n[w]\nruntime=1\n"
    first = re.findall(r"filename_format=(.*)", write(text))
    assert first[0] == first[2] != first[1]
    other = re.findall(r"filename_format=(.*)", write("# other\n" + text))
    assert set(first).isdisjoint(other)


def test_a_name_of_a_section_is_that_of_its_job() -> None:
    written = write("[global]\nname=title\nruntime=1\n[a]\nname=x\n[b]\nwait_for=x\n")
    assert "name=title" not in written
    assert "[x]" in written
    assert "wait_for=x" in written


def test_global_options_hold_from_their_place_on() -> None:
    text = "[global]\nruntime=1\n[a]\nstonewall\n[global]\nruntime=5\n[b]\nstonewall\n"
    assert parse_job_file("x", text).runtime_s == 6


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("ioengine=filedelete", Place.DEVICE),
        ("ioengine=filecreate", Place.DEVICE),
        ("nr_files=4", Place.DEVICE),
        ("zone_reset_threshold=0.5", Place.FILES),
    ],
)
def test_options_of_another_kind_of_target_are_refused(line: str, place: Place) -> None:
    job = parse_job_file("mine.fio", f"[a]\nruntime=1\n{line}\n")
    (sentence,) = misplaced_options(job, place)
    assert sentence.startswith("mine.fio:3: ")
    assert sentence.endswith(" only")
    with pytest.raises(LeadlineError, match="cannot be used"):
        write_job_file(job, place)
    (other,) = {Place.FILES, Place.DEVICE} - {place}
    assert not list(misplaced_options(job, other))
    assert line.partition("=")[2] in write_job_file(job, other)


def test_a_record_that_says_less_than_its_text_is_refused() -> None:
    """A plan of an archive: the consent to overwrite a device goes by `writes`."""
    job = parse_job_file("x", "[a]\nruntime=1\nrw=write\n").model_copy(update={"writes": False})
    with pytest.raises(LeadlineError, match="its plan says that it only reads"):
        write_job_file(job, Place.DEVICE)
    edited = job.model_copy(update={"text": "[a]\nruntime=1\nexec_prerun=id\n"})
    with pytest.raises(LeadlineError, match="exec_prerun"):
        write_job_file(edited, Place.DEVICE)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("random read 4k", True),
        ("mix 70:30, 8%", True),
        ("größe", True),
        ("globally", False),
        ("..", False),
        ("-x", False),
        ("a;b", False),
        ("a#b", False),
        ("${HOME}", False),
        ("a]b", False),
        ("a ", False),
        ("x" * 201, False),
    ],
)
def test_names_of_generated_jobs(name: str, fits: bool) -> None:
    assert fits_job_name(name) == fits


@pytest.mark.thorough
def test_no_mutated_job_file_leaves_its_target() -> None:
    """The fuzz target without a fuzzer: hostile job files with one to four changes."""
    job_files = TARGETS["job-file"]
    seeds = list(job_files.seeds())
    rng = random.Random(39)
    for _ in range(100):
        job_files.test(mutated(rng.choice(seeds), rng))


@pytest.mark.parametrize(
    ("options", "footprint"),
    [
        ("size=1M", 1 << 20),
        ("size=1M\nnumjobs=4", 4 << 20),
        ("size=1M\nfilesize=10M\nnrfiles=20", 200 << 20),
        ("size=100%\nfilesize=500M", 500 << 20),
        ("filesize=4k-64k\nnrfiles=10\nsize=64k", 640 << 10),
        ("size=1M\noffset=190M", 191 << 20),
        ("size=1M\noffset=50%", 2 << 20),
        ("size=1M\noffset_increment=8M\nnumjobs=2", 18 << 20),
        ("size=50%", 0),
    ],
)
def test_the_footprint_is_the_most_that_its_files_have(options: str, footprint: int) -> None:
    job_file = parse_job_file("own.fio", f"[j]\nrw=write\nruntime=1\n{options}\n")
    assert job_file.footprint_bytes == footprint
    faults = list(misplaced_options(job_file, Place.FILES))
    assert bool(faults) == (options == "size=50%")
