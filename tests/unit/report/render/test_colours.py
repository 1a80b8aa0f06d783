"""Colours of the pages: readable, and orange spent on losses alone."""

from __future__ import annotations

import colorsys
import re
from importlib import resources

import pytest

from leadline.report.document import SYSTEM_HUES
from leadline.report.render.svg_shapes import colour, shape

# WCAG 2.2, success criterion 1.4.3: contrast of text; names of lines have their colour.
LEAST_CONTRAST = 4.5
SERIES = [f"s{number}" for number in range(10)]


def _palettes() -> dict[str, dict[str, str]]:
    """The variables of light and dark pages and of paper."""
    templates = resources.files("leadline.report") / "templates"
    rules = [
        dict(re.findall(r"--([\w-]+):(#[0-9a-f]{3,6})\b", block))
        for name in ("chart.css", "print.css")
        for block in re.findall(r"\{([^{}]*--bg:[^{}]*)\}", (templates / name).read_text("utf-8"))
    ]
    light, dark, again, paper = rules
    assert dark == again
    return {"light": light, "dark": dark, "paper": paper}


PALETTES = _palettes()


def _channels(text: str) -> tuple[float, ...]:
    digits = text[1:] if len(text) == 7 else "".join(2 * digit for digit in text[1:])
    return tuple(int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4))


def _luminance(text: str) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in _channels(text)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2: 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", PALETTES)
@pytest.mark.parametrize("use", [*SERIES, "best", "worst", "warn", "soft", "ink"])
def test_colours_have_the_contrast_of_text(name: str, use: str) -> None:
    palette = PALETTES[name]
    assert min(contrast(palette[use], palette[on]) for on in ("bg", "panel")) >= LEAST_CONTRAST


@pytest.mark.parametrize("name", PALETTES)
def test_no_series_has_the_colour_of_a_verdict(name: str) -> None:
    def hue(text: str) -> tuple[float, float]:
        turn, _, strength = colorsys.rgb_to_hls(*_channels(text))
        return turn, strength

    palette = PALETTES[name]
    for verdict in ("best", "worst"):
        turn, _ = hue(palette[verdict])
        for series in SERIES:
            own, strength = hue(palette[series])
            near = min(abs(own - turn), 1 - abs(own - turn)) < 10 / 360
            assert not near or strength < 0.55, f"{series} looks like {verdict}"


def test_systems_differ_in_colour_and_shape() -> None:
    assert len({colour(hue) for hue in SYSTEM_HUES}) == 2
    assert [shape(hue) for hue in SYSTEM_HUES] == ["circle", "diamond"]
