from __future__ import annotations

import pytest

from leadline.formats.nvme.smart_log import parse_smart_log
from leadline.formats.output import FormatError
from tests.conftest import ROOT

TEXT = (ROOT / "tests" / "recorded" / "nvme" / "nvme-smart-log-uml.txt").read_text()
# nvme-cli 1.
OLD = """\
Smart Log for NVME device:nvme0 namespace-id:ffffffff
critical_warning                    : 0
temperature                         : 36 C
percentage_used                     : 103%
data_units_read                     : 1,234,567
data_units_written                  : 2,000
host_read_commands                  : 26,874,889
controller_busy_time                : 12
media_errors                        : 1
"""


def test_what_a_target_on_linux_tells() -> None:
    log = parse_smart_log(TEXT)
    assert (log.device, log.critical_warning, log.temperature_k) == ("nvme0", 0, None)
    assert (log.read_bytes, log.written_bytes) == (512_000, 0)
    assert (log.read_commands, log.write_commands) == (6, 0)
    assert (log.used, log.busy_s, log.media_errors) == (0.0, 0.0, 0)
    assert log.fields["endurance_group_critical_warning_summary"] == "0"
    assert len(log.fields) == len(TEXT.splitlines()) - 1


def test_an_old_version() -> None:
    log = parse_smart_log(OLD)
    assert (log.temperature_k, log.used, log.busy_s) == (309.0, 1.03, 720.0)
    assert (log.read_bytes, log.written_bytes) == (1_234_567 * 512_000, 1_024_000_000)
    assert (log.read_commands, log.write_commands) == (26_874_889, None)


def test_degrees() -> None:
    warm = TEXT.replace("-273\N{DEGREE SIGN}C (0 Kelvin)", "36\N{DEGREE SIGN}C (309 Kelvin)")
    assert warm != TEXT
    assert parse_smart_log(warm).temperature_k == 309.0
    bare = TEXT.replace("-273\N{DEGREE SIGN}C (0 Kelvin)", "36\N{DEGREE SIGN}C")
    assert parse_smart_log(bare).temperature_k == 309.0


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (TEXT.replace("critical_warning", "warning", 1), "truncated-result"),
        (TEXT.replace("power_cycles\t\t\t\t:", "power_cycles"), "unreadable-result"),
        (TEXT.replace("power_cycles", "media_errors"), "unreadable-result"),
        (TEXT.replace("(0 Kelvin)", "(cold)").replace("-273", ""), "unreadable-result"),
        (TEXT.replace("percentage_used\t\t\t\t: 0%", "percentage_used: low"), "unreadable-result"),
        (TEXT.replace("1 (512.00 kB)", "1 of 2"), "unreadable-result"),
        (
            TEXT.replace("commands\t\t\t: 6", "commands: -6"),
            "unreadable-result",
        ),
        (TEXT[:-2], "truncated-result"),
        ("", "empty-result"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str) -> None:
    assert text != TEXT
    with pytest.raises(FormatError) as refused:
        parse_smart_log(text)
    assert refused.value.condition == condition
