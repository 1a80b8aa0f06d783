from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.plan.target_url import (
    CHOICES,
    GIB,
    MOST_VOLUMES,
    OPTIONS,
    PRESETS,
    Access,
    Lifetime,
    RunnerKind,
    TargetKind,
    VolumeMode,
    VolumeRequest,
    parse_target_url,
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
        elif key == "size":
            found[key] = f"{draw(st.integers(1, 4096))}Gi"
        else:
            found[key] = draw(_NAMES)
    if found.get("runner") != "vm":
        found.pop("vm", None)
    elif found.get("mode") == "filesystem":
        del found["mode"]
    if "node" in found:
        found.pop("zone", None)
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
    assert (large.preset.cores, large.preset.memory_bytes) == (8, 16 * GIB)


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
        ("storageclass:fast?access=rwop", "access is rwo or rwx, got 'rwop'"),
        ("storageclass:fast?runner=host", "runner is pod or vm, got 'host'"),
        ("storageclass:fast?vm=large", "vm has an effect with runner=vm only"),
        ("storageclass:fast?runner=vm&vm=huge", "vm is small, medium or large, got 'huge'"),
        ("storageclass:fast?runner=vm&mode=filesystem", "takes its volume as a block device"),
        ("storageclass:fast?count=0", "count is a number from 1 to 100, got '0'"),
        ("storageclass:fast?count=101", "count is a number from 1 to 100, got '101'"),
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
        more = {"runner": "vm"} if key == "vm" else {}
        volume_request({**more, key: value})
