"""The report as one self-contained page: no request leaves it, names stay text."""

from __future__ import annotations

import base64
import hashlib
import itertools
import math
import re
from collections.abc import Iterable
from importlib import resources

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from leadline.report.contracts import ShowOutput
from leadline.report.document import Block, Document, DotPlot, Table


def render(document: Document, measurements: ShowOutput) -> str:
    """The page; `measurements` (with every trial) is what its reader can download.

    The page's script and style are allowed by their hashes alone, so nothing that a name smuggled
    in would run even if it were not escaped.
    """
    folder = resources.files("leadline.report") / "templates"
    page, style, script = (
        (folder / name).read_text("utf-8") for name in ("page.html.j2", "page.css", "page.js")
    )
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, loader=DictLoader({"page": page})
    )
    environment.globals.update(at=_at, grouped=_grouped, slots=_slots)
    data = measurements.model_dump_json(by_alias=True, exclude_none=False)
    return environment.get_template("page").render(
        document=document,
        style=Markup(style),
        script=Markup(script),
        style_hash=_source_hash(style),
        script_hash=_source_hash(script),
        measurements=Markup(_inert(data)),
        name=re.sub(r"[^A-Za-z0-9._-]+", "-", measurements.run).strip(".-") or "run",
    )


def _source_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


# Markup, controls, and the marks that turn the direction of text.
_ACTIVE = re.compile("[<>&\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff]")


def _inert(data: str) -> str:
    """JSON of the same values that cannot end its script element and hides nothing."""
    return _ACTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", data)


def _at(plot: DotPlot, value: float) -> str:
    """Where a value lies on a plot's axis, in per cent of its width."""
    if plot.log:
        share = (math.log(value) - math.log(plot.low)) / (math.log(plot.high) - math.log(plot.low))
    else:
        share = (value - plot.low) / (plot.high - plot.low)
    return f"{100 * min(max(share, 0.0), 1.0):.2f}"


def _grouped(blocks: Iterable[Block]) -> list[tuple[str, list[Block]]]:
    """Blocks that follow one another and are of one kind, together."""
    return [
        (kind, list(group))
        for kind, group in itertools.groupby(blocks, key=lambda block: type(block).__name__)
    ]


def _slots(table: Table) -> list[int]:
    """Marks to leave room for in each column, at most four, so that its digits stay in line."""
    return [
        min(4, max((len(row[index].marks) for row in table.rows), default=0))
        for index in range(len(table.columns))
    ]
