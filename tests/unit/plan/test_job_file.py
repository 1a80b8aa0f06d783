from __future__ import annotations

import pytest

from leadline.errors import JOB_FILE_INVALID, LeadlineError
from leadline.plan.job_file import parse_job_file

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


def test_what_must_be_known_is_read_and_the_text_is_kept() -> None:
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
        ("[a]\nfilename=/dev/sda\nruntime=1\n", "2: 'filename' takes the I/O away"),
        ("[a]\ndirectory=/mnt\nruntime=1\n", "2: 'directory'"),
        ("[a]\ninclude other.fio\nruntime=1\n", "2: 'include'"),
        ("[a]\nruntime=1\nwrite_bw_log=/etc/x\n", "must not hold a path"),
        ("[a]\nruntime=1\nfilename_format=../$jobnum\n", "must not hold a path"),
        ("[a]\nrw=read\n", "[a] has no runtime"),
        ("rw=read\n", "comes before any [section]"),
        ("[global]\nruntime=1\n", "no job section"),
        ("[a]\nruntime=1\nsize=lots\n", "not a size"),
    ],
)
def test_a_job_file_that_cannot_be_bounded_or_kept_on_its_target_is_refused(
    text: str, said: str
) -> None:
    with pytest.raises(LeadlineError) as caught:
        parse_job_file("mine.fio", text)
    assert caught.value.kind is JOB_FILE_INVALID
    assert said in str(caught.value)
