from __future__ import annotations

import pytest

from leadline.formats.nvme.identify import BlockFormat, parse_id_ctrl, parse_id_ns
from leadline.formats.output import FormatError
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "nvme"
CONTROLLER = (RECORDED / "nvme-id-ctrl-uml.txt").read_text()
NAMESPACE = (RECORDED / "nvme-id-ns-uml.txt").read_text()
FORMATS = """\
nguid   : 00000000000000000000000000000000
lbaf  0 : ms:0   lbads:9  rp:0x2
lbaf  1 : ms:8   lbads:12 rp:0 (in use)
lbaf  2 : ms:0   lbads:0  rp:0
"""


def test_a_controller_of_the_kernels_target() -> None:
    told = parse_id_ctrl(CONTROLLER)
    assert (told.model, told.firmware, told.nqn) == ("Linux", "6.1.176", "nqn.test")
    assert told.serial == "bbb79cd27d29a9783aad"
    assert (told.controller_id, told.namespaces, told.max_commands) == (1, 1024, 1024)
    assert (told.submission_entry_bytes, told.completion_entry_bytes) == (64, 16)
    assert told.in_capsule_bytes == 16384
    assert (told.fields["ver"], told.fields["kas"]) == ("0x10300", "10")
    assert told.fields["ps 0"].endswith("rrt:0 rrl:0 rwt:0 rwl:0 idle_power:- active_power:- "
                                        "active_power_workload:-")  # fmt: skip
    lines = [line for line in CONTROLLER.splitlines()[1:] if not line.startswith(" ")]
    assert len(told.fields) == len(lines)


def test_the_largest_request() -> None:
    told = parse_id_ctrl(CONTROLLER)
    assert (told.max_transfer_shift, told.max_transfer_bytes()) == (0, None)
    limited = parse_id_ctrl(CONTROLLER.replace("mdts      : 0", "mdts      : 5"))
    assert limited.max_transfer_bytes() == 128 << 10
    assert limited.max_transfer_bytes(page_bytes=16384) == 512 << 10


def test_a_drive_without_fabrics() -> None:
    text = CONTROLLER[: CONTROLLER.index("ioccsz")].replace("sqes      : 0x66", "sqes      : 0x76")
    told = parse_id_ctrl(text)
    assert (told.in_capsule_bytes, told.submission_entry_bytes) == (None, 64)
    zero = parse_id_ctrl(CONTROLLER.replace("ioccsz    : 1028", "ioccsz    : 0"))
    assert zero.in_capsule_bytes == 0


def test_a_namespace_of_which_the_formats_were_cut_off() -> None:
    told = parse_id_ns(NAMESPACE)
    assert (told.nsid, told.size, told.capacity, told.used) == (1, 1 << 20, 1 << 20, 1 << 20)
    assert (told.formats, told.block_bytes) == ((), None)
    assert told.fields["nmic"] == "0x1"


def test_the_format_in_use() -> None:
    told = parse_id_ns(NAMESPACE + FORMATS)
    assert told.block_bytes == 4096
    assert told.formats == (
        BlockFormat(data_bytes=512, metadata_bytes=0, performance=2, in_use=False),
        BlockFormat(data_bytes=4096, metadata_bytes=8, performance=0, in_use=True),
        BlockFormat(data_bytes=0, metadata_bytes=0, performance=0, in_use=False),
    )


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (CONTROLLER.replace("rab       : 6", "rab         6"), "unreadable-result"),
        (CONTROLLER.replace("rab       : 6", "vid       : 6"), "unreadable-result"),
        (CONTROLLER.replace("mdts      : 0", "mdts      : 255"), "unreadable-result"),
        (CONTROLLER.replace("nn        : 1024", "nn        : few"), "unreadable-result"),
        (CONTROLLER[:100], "truncated-result"),
        ("".join(CONTROLLER.splitlines(keepends=True)[:6]), "truncated-result"),
        (NAMESPACE, "unreadable-result"),
        ("", "empty-result"),
    ],
)
def test_a_controller_that_is_not_understood(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_id_ctrl(text)
    assert refused.value.condition == condition


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (NAMESPACE.replace("nsze    : 0x100000", "nsze    : 1e5"), "unreadable-result"),
        (NAMESPACE + FORMATS.replace("lbads:12", "lbads:64"), "unreadable-result"),
        (NAMESPACE + FORMATS.replace("lbads:12", "lbads:q"), "unreadable-result"),
        (NAMESPACE.replace("nsze ", "size "), "truncated-result"),
        (NAMESPACE[:-3], "truncated-result"),
        (CONTROLLER, "unreadable-result"),
        (" ", "empty-result"),
    ],
)
def test_a_namespace_that_is_not_understood(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_id_ns(text)
    assert refused.value.condition == condition


def test_bits_of_a_controller_spelled_out() -> None:
    """As -H prints them (https://github.com/linux-nvme/nvme-cli/issues/1733 and pull/4049)."""
    spelled = """\
Non-Volatile memory controller: Kingston Technology Company, Inc. NV2 NVMe SSD [SM2267XT]

NVME Identify Controller:
vid       : 0x2646
sn        : 50026B768623DB3D
mn        : KINGSTON SNV2S1000G
cmic      : 0
    [3:3] : 0     ANA not supported
mdts      : 6
cntlid    : 0x1
wctemp    : 0
[15:0] : -273\u00b0C (0 Kelvin)     Warning Composite Temperature Threshold (WCTEMP)

rpmbs     : 0
[31:24]: 0     Access Size
ps      0 : mp:25.00W operational enlat:100 exlat:100 rrt:0 rrl:0
          rwt:0 rwl:0 idle_power:- active_power:-
"""
    told = parse_id_ctrl(spelled)
    assert (told.model, told.controller_id) == ("KINGSTON SNV2S1000G", 1)
    assert told.max_transfer_bytes() == 256 << 10
    assert told.fields["ps 0"].endswith("idle_power:- active_power:-")
    with pytest.raises(FormatError, match="line 1 "):
        parse_id_ctrl("[3:3] : 0     ANA not supported\n" + spelled)


def test_formats_of_a_namespace_spelled_out() -> None:
    told = parse_id_ns(
        "NVME Identify Namespace 1:\nnsze    : 0x100\nncap    : 0x100\nnuse    : 0x10\n"
        "nsfeat  : 0\n  [4:4] : 0\tNPWG, NPWA, NPDG, NPDA, and NOWS are Not Supported\n"
        "LBA Format  0 : Metadata Size: 0   bytes - Data Size: 512 bytes - "
        "Relative Performance: 0x2 Good \n"
        "LBA Format  1 : Metadata Size: 8   bytes - Data Size: 4096 bytes - "
        "Relative Performance: 0 Best (in use)\n"
    )
    assert [(one.data_bytes, one.metadata_bytes, one.performance) for one in told.formats] == [
        *((512, 0, 2), (4096, 8, 0)),
    ]
    assert told.block_bytes == 4096
    with pytest.raises(FormatError, match="line 4 "):
        parse_id_ns("nsze: 1\nncap: 1\nnuse: 1\nLBA Format  0 : Metadata Size: many\n")
