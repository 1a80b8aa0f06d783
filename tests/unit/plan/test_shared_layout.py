"""How the targets of a plan divide the image that they share."""

from __future__ import annotations

import pytest

from leadline.plan.footprint import (
    OBJECT_BYTES,
    Footprint,
    Part,
    image_bytes,
    image_of,
    layout,
    part_of,
)
from leadline.plan.target_url import parse_target_url

MIB = 1 << 20


def footprint(size: int, jobs: int = 1) -> Footprint:
    files = {f"leadline.{job}.dat": size for job in range(jobs)}
    return Footprint(files=files, span=size * jobs, job_file_bytes=0, writes=True)


def test_stretches_follow_each_other_in_whole_objects_with_librbd_at_the_beginning() -> None:
    wanted = [
        (Part.ZFS, footprint(10 * MIB)),
        (Part.LIBRBD, footprint(3 * MIB)),
        (Part.EXT4, footprint(MIB)),
    ]
    found = layout(wanted)
    assert list(found) == [Part.LIBRBD, Part.EXT4, Part.ZFS]
    end = 0
    for stretch in found.values():
        assert stretch.offset == end
        assert stretch.size % OBJECT_BYTES == 0
        end += stretch.size
    assert image_bytes(wanted) == end
    assert found[Part.LIBRBD].size == OBJECT_BYTES


def test_targets_of_librbd_share_a_stretch_and_files_lie_beside_each_other() -> None:
    one, two = footprint(100 * MIB), footprint(60 * MIB, jobs=2)
    found = layout([(part, needs) for part in Part for needs in (one, two)])
    assert found[Part.LIBRBD].size == 120 * MIB, "the larger of them"
    assert found[Part.EXT4].size >= 220 * MIB
    # The data of both, a copy of it, and the room that a pool of ZFS needs.
    assert found[Part.ZFS].size >= 2.5 * 220 * MIB + 512 * MIB


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("rbd:rep2?shared=yes", Part.LIBRBD),
        ("rbd:rep2?shared=no", None),
        ("rbd:rep2", None),
        ("ext4+rbd:rep2", Part.EXT4),
        ("zfs+rbd:rep2?recordsize=8K", Part.ZFS),
        ("zfs:tank", None),
    ],
)
def test_who_shares_an_image(url: str, part: Part | None) -> None:
    assert part_of(parse_target_url(url)) is part


def test_each_make_of_a_pool_has_an_image_of_its_own() -> None:
    urls = ("zfs+rbd:p?recordsize=8K", "ext4+rbd:p", "zfs+rbd:p?ashift=9", "zfs+rbd:p?log=1G")
    images = [image_of(parse_target_url(url)) for url in urls]
    assert images[0] == images[1]
    assert len(set(images)) == 3


def test_the_shared_image_is_none_of_the_users() -> None:
    with pytest.raises(ValueError, match="one of Leadline's own"):
        parse_target_url("rbd:rep2/mine?shared=yes")
