from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.target_url import CHOICES, OPTIONS, TargetKind, parse_target_url
from leadline.plan.volume_request import (
    GIB,
    MOST_VOLUMES,
    PRESETS,
    Access,
    Lifetime,
    RunnerKind,
    VolumeMode,
    VolumeRequest,
    VolumeSharing,
    volume_request,
)

_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@st.composite
def options(draw: st.DrawFn) -> dict[str, str]:
    """Options that fit together."""
    found: dict[str, str] = {}
    for key in draw(st.lists(st.sampled_from(OPTIONS), unique=True)):
        if key in CHOICES:
            found[key] = draw(st.sampled_from(CHOICES[key]))
        elif key == "count":
            found[key] = str(draw(st.integers(1, MOST_VOLUMES)))
        elif key in ("size", "memory"):
            found[key] = f"{draw(st.integers(1, 4096))}Gi"
        elif key == "cores":
            found[key] = str(draw(st.integers(1, 64)))
        else:
            found[key] = draw(_NAMES)
    if found.get("runner") != "vm":
        for key in ("vm", "io_threads", "bus", "cache", "dedicated"):
            found.pop(key, None)
    elif found.get("mode") == "filesystem":
        del found["mode"]
    if found.get("io_threads") == "yes":
        found.pop("bus", None)
    if "node" in found:
        found.pop("zone", None)
    if found.get("bus", "virtio") != "virtio":
        found.pop("io_threads", None)
    if "node" in found or found.get("spread") in found:
        found.pop("spread", None)
    return found


@given(_NAMES, options())
def test_a_target_is_written_as_it_is_read(name: str, given_options: dict[str, str]) -> None:
    query = "&".join(f"{key}={value}" for key, value in given_options.items())
    url = f"storageclass:{name}" + (f"?{query}" if query else "")
    parsed = parse_target_url(url)
    assert parsed.kind is TargetKind.STORAGE_CLASS
    assert str(parsed) == url
    assert parse_target_url(str(parsed)) == parsed
    request = parsed.request
    assert request.count == int(given_options.get("count", "1"))
    assert request.node == given_options.get("node", "")


@given(st.text(max_size=60))
def test_any_options_are_a_request_or_a_sentence(query: str) -> None:
    with suppress(ValueError):
        parsed = parse_target_url(f"storageclass:fast?{query}")
        assert isinstance(parsed.request, VolumeRequest)


def test_all_options_mean_what_they_say() -> None:
    url = "storageclass:fast?size=20Gi&mode=filesystem&access=rwx&node=n1&count=3&volume=fresh"
    assert parse_target_url(url).request == VolumeRequest(
        size_bytes=20 * GIB,
        mode=VolumeMode.FILESYSTEM,
        access=Access.RWX,
        node="n1",
        count=3,
        lifetime=Lifetime.FRESH,
    )
    large = parse_target_url("storageclass:fast?runner=vm&vm=large&zone=eu-1a").request
    assert (large.runner, large.zone) == (RunnerKind.VM, "eu-1a")
    assert large.runner_size(None) == PRESETS["large"]


def test_without_options_it_is_one_volume_in_a_pod() -> None:
    request = parse_target_url("storageclass:fast").request
    assert request == VolumeRequest()
    assert (request.count, request.runner, request.mode) == (1, RunnerKind.POD, None)


def test_presets_are_those_of_the_study() -> None:
    sizes = {name: (one.cores, one.memory_bytes // GIB) for name, one in PRESETS.items()}
    assert sizes == {"small": (2, 4), "medium": (4, 8), "large": (8, 16)}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("storageclass:", "is not storageclass:NAME"),
        ("storageclass:Fast", "is not storageclass:NAME"),
        ("storageclass:a/b", "is not storageclass:NAME"),
        ("storageclas:fast", "did you mean 'storageclass'?"),
        ("storageclass:fast?sise=1Gi", "did you mean 'size'?"),
        ("storageclass:fast?size=0", "size must be more than zero"),
        ("storageclass:fast?size=-1Gi", "'-1Gi' is not a size"),
        ("storageclass:fast?size=lots", "'lots' is not a size"),
        ("storageclass:fast?mode=raw", "mode is block or filesystem, got 'raw'"),
        ("storageclass:fast?access=rwop", "access is rwo, rwx or rox, got 'rwop'"),
        ("storageclass:fast?runner=host", "runner is pod or vm, got 'host'"),
        ("storageclass:fast?vm=large", "vm has an effect with runner=vm only"),
        ("storageclass:fast?runner=vm&vm=huge", "vm is small, medium or large, got 'huge'"),
        ("storageclass:fast?runner=vm&mode=filesystem", "takes its volume as a block device"),
        ("storageclass:fast?count=0", "count is a number from 1 to 256, got '0'"),
        ("storageclass:fast?count=257", "count is a number from 1 to 256, got '257'"),
        ("storageclass:fast?count=-1", "count is a number"),
        ("storageclass:fast?count=\u0663", "count is a number"),
        ("storageclass:fast?count=" + "9" * 5000, "count is a number"),
        ("storageclass:fast?node=N_1", "'N_1' is no name of a node"),
        ("storageclass:fast?zone=a b", "'a b' is no name of a zone"),
        ("storageclass:fast?node=a&zone=b", "give node or zone, not both"),
        ("storageclass:fast?volume=new", "volume is same or fresh, got 'new'"),
        ("storageclass:fast?count=1&count=2", "needs one value"),
        ("storageclass:fast?read_policy=localize", "have no option 'read_policy'"),
    ],
)
def test_what_is_no_request_is_refused_with_a_sentence(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_target_url(url)


@pytest.mark.parametrize("key", sorted(CHOICES))
def test_every_choice_is_taken(key: str) -> None:
    for value in CHOICES[key]:
        of_machines = ("vm", "io_threads", "bus", "cache", "dedicated")
        more = {"runner": "vm"} if key in of_machines else {}
        volume_request({**more, key: value})


@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ("cores=4", ""),
        ("cores=500m&memory=2Gi", ""),
        ("runner=vm&cores=4&memory=8Gi&io_threads=yes&cache=writeback&dedicated=yes", ""),
        ("runner=vm&bus=scsi&io_threads=no", ""),
        ("spread=node&count=all", ""),
        ("spread=zone&count=6&access=rwx", ""),
        ("runner=vm&cores=0.5", "whole processors"),
        ("cores=many", "cores is a number"),
        ("cores=0", "more than 0"),
        ("memory=0", "memory must be more than zero"),
        ("bus=scsi", "bus has an effect with runner=vm only"),
        ("runner=vm&bus=scsi&io_threads=yes", "with bus=virtio only"),
        ("runner=vm&bus=ide", "bus is virtio, scsi or sata"),
        ("count=all", "add spread=node"),
        ("spread=node&node=a", "cannot be spread over nodes"),
        ("spread=zone&zone=a", "cannot be spread over zones"),
        ("count=257", "from 1 to 256"),
    ],
)
def test_sizes_and_places_of_runners(query: str, fact: str) -> None:
    url = f"storageclass:fast?{query}"
    if not fact:
        assert str(parse_target_url(url)) == url
        return
    with pytest.raises(ValueError, match=fact):
        parse_target_url(url)


def test_a_read_only_volume_is_shared_and_exists_twice() -> None:
    def volumes(query: str) -> tuple[VolumeSharing | None, int]:
        found = parse_target_url(f"storageclass:fast?count=4&{query}").request
        return found.sharing, found.volumes

    assert volumes("access=rwx") == (None, 4)
    assert volumes("access=rwx&sharing=own-files") == (VolumeSharing.OWN_FILES, 1)
    assert volumes("access=rox") == (VolumeSharing.SAME_FILES, 2)


def test_a_runner_has_its_own_size_or_that_of_its_cluster() -> None:
    cluster = KubernetesCluster(cpu=3)

    def size(query: str) -> tuple[float, int]:
        found = parse_target_url(f"storageclass:fast?{query}").request.runner_size(cluster)
        return found.cores, found.memory_bytes

    assert size("") == (3, 1 << 30)
    assert size("cores=0.5") == (0.5, 1 << 30)
    assert size("runner=vm&vm=medium&memory=3Gi") == (4, 3 << 30)
