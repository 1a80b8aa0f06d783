"""Render a report as one self-contained HTML page that sends no request."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

from leadline.findings import Severity
from leadline.report.document import (
    Block,
    Cell,
    DeltaChart,
    Document,
    DotPlot,
    Kind,
    LineChart,
    Mark,
    StripChart,
    Table,
    printable,
)
from leadline.report.render.svg_gauges import gauge, gauge_axis
from leadline.report.render.svg_lines import line_plot, lines_legend
from leadline.report.render.svg_rows import panel_legend, row_chart, tile_drawing
from leadline.report.render.svg_shapes import DEFINITIONS, colour, heat_ratio, level, verdict_style
from leadline.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file that a reader can save; the page holds it compressed.

    `label` is the text of its button; the default is the ending of its name, `CSV`.
    """

    name: str
    media_type: str
    text: str
    label: str = ""


def render(
    document: Document,
    downloads: Sequence[Download] = (),
    *,
    ready_to_print: bool = False,
    picture: bool = False,
) -> str:
    """Render the page with its downloads.

    `ready_to_print`: everything unfolded, in light colours, laid out for paper, without script
    and without downloads. `picture`: the same, laid out for the screen.

    The page's script and style are allowed by their hashes alone: a script in a name would not
    run even if it were not escaped. The last line is the SHA-256 of all lines above.
    """
    paper = _source("print.css")
    still = ready_to_print or picture
    content = {"document": printable(document), "downloads": () if still else downloads}
    body = _environment(still).get_template("body").render(content)
    script = "" if still else _needed_script(body)
    style = _source("chart.css") + _source("page.css")
    style += paper if ready_to_print else f"@media print{{{paper}}}\n"
    style = _needed_style(style, body, script)
    page = (
        _environment(still)
        .get_template("page")
        .render(
            content,
            version=__version__,
            body=Markup(body),
            definitions=Markup(DEFINITIONS),
            style=Markup(style),
            script=Markup(script),
            style_hash=_source_hash(style),
            script_hash=_source_hash(script),
        )
    )
    return seal_page(_with_shared_axes(page.rstrip("\n") + "\n"))


# Markup in which no text has quotes: they are escaped.
_AXES = re.compile(r'<g class="axes">(.*?)</g>')


def _with_shared_axes(page: str) -> str:
    """Draw an axis that several charts have once, and refer to it."""
    counts = Counter(_AXES.findall(page))
    names: dict[str, str] = {}

    def shared(found: re.Match[str]) -> str:
        drawing = found[1]
        if counts[drawing] < 2:
            return drawing
        if drawing in names:
            return f'<use href="#{names[drawing]}"/>'
        names[drawing] = f"axes-{len(names) + 1}"
        return f'<g id="{names[drawing]}">{drawing}</g>'

    return _AXES.sub(shared, page)


_MOST_BULLETS, _MOST_WORDS = 5, 20
# Parts of the markup, in which no text has quotes: they are escaped.
_DEFINED = re.compile(r'<g id="([^"]*)">(.*?)</g>')
_USED = re.compile(r'<use href="#([^"]*)"/>')
_NAMES = re.compile(r' id="[^"]*"| href="#(?!shape-)[^"]*"')


def render_fragment(document: Document) -> str:
    """Render the beginning of a document for a notebook: main result, summary and first screen.

    It is an element with its own style, without script, link to the network or frame. The style
    applies inside it alone (CSS `@scope`; a browser without that shows it unstyled). A document
    without a first screen is shown with its first section.
    """
    document = printable(document)
    first = document.sections[:1]
    shown = document.front or tuple(block for section in first for block in section.blocks)
    summary = document.summary[: 1 + _MOST_BULLETS]
    body = (
        _environment(True)
        .get_template("fragment")
        .render(document=replace(document, summary=summary), shown=shown)
    )
    # Styles of a scope do not reach the content of `use`; a grid uses that of its chart.
    defined = dict(_DEFINED.findall(body))
    for _ in range(2):
        body = _USED.sub(lambda found: defined.get(found[1], found[0]), body)
    # Two fragments in one notebook must not have elements of the same name.
    body = _NAMES.sub("", body)
    style = _source("chart.css") + _source("page.css") + _source("fragment.css")
    scoped = re.sub(r":root|(?m:^)(?:html|body)(?=[{:])", ":scope", style)
    return (
        f'<div class="leadline" lang="en"><style>@scope{{{scoped}}}</style>'
        f'<svg class="defs" aria-hidden="true">{DEFINITIONS}</svg>\n{body}\n</div>\n'
    )


_SEAL = "<!-- SHA-256 of all lines above: {} -->\n"
_SEALED = re.compile(_SEAL.format("([0-9a-f]{64})") + r"\Z")


def seal_page(page: str) -> str:
    """Return a page with the line that says what its bytes are."""
    return page + _SEAL.format(hashlib.sha256(page.encode()).hexdigest())


def open_page(sealed: str) -> tuple[str, bool | None]:
    """Return a page without its seal, and whether the seal holds; None where it has none."""
    found = _SEALED.search(sealed)
    if found is None:
        return sealed, None
    page = sealed[: found.start()]
    return page, seal_page(page) == sealed


@cache
def _source(name: str) -> str:
    return (resources.files("leadline.report") / "templates" / name).read_text("utf-8")


_PART = re.compile(r"(?ms)^ *// If the page has (\S+):\n(.*?)^ *// End of that\.\n")


def _needed_script(body: str) -> str:
    """The script without the parts for what a page lacks, comment lines and indentation: each page
    holds it."""
    script = _PART.sub(lambda found: found[2] if found[1] in body else "", _source("page.js"))
    lines = (line.strip() for line in script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


_STYLE_RULE = re.compile(r"([^{}@]+)\{([^{}]*)\}")
# `:is(.n2, .n4)`: a comma within it does not end a selector.
_CLASSES_OF_FUNCTION = re.compile(r"\([^)]*[.,]")
_EMPTY_MEDIA = re.compile(r"@media[^{}]*\{\s*\}\n?")
_CLASS = re.compile(r"\.([a-z][\w-]*)")
_WORDS = re.compile(r"[\w-]+")
_CLASSES_USED = re.compile(r'class="([^"]*)"')


def _needed_style(style: str, body: str, script: str) -> str:
    """The rules of a style sheet whose classes a page has, or its script names."""
    used = " ".join(_CLASSES_USED.findall(body) + _CLASSES_USED.findall(DEFINITIONS))
    # The shapes that every chart refers to are outside the body.
    words = {"defs", *used.split(), *_WORDS.findall(script)}

    def needed(rule: re.Match[str]) -> str:
        if _CLASSES_OF_FUNCTION.search(rule[1]):
            return rule[0]
        kept = [one for one in rule[1].split(",") if words.issuperset(_CLASS.findall(one))]
        return f"{','.join(kept)}{{{rule[2]}}}" if kept else ""

    return _EMPTY_MEDIA.sub("", _STYLE_RULE.sub(needed, style))


# Findings of one code and severity with their own sentence, besides the first.
_MOST_FINDINGS = 6


# Compiling takes longer than filling in a small page.
@cache
def _environment(ready_to_print: bool) -> Environment:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        extensions=["jinja2.ext.loopcontrols"],
        loader=DictLoader(
            {name: _source(f"{name}.html.j2") for name in ("page", "body", "blocks", "fragment")}
        ),
    )
    environment.globals.update(
        paper=ready_to_print,
        brief=_brief,
        cells=_cells,
        colour=colour,
        panel_legend=panel_legend,
        dots=_is_matrix,
        ending=_ending,
        footnote=_footnote,
        sign=_SIGNS.__getitem__,
        grouped=_grouped,
        heat_ratio=heat_ratio,
        heat_level=level,
        isolated=isolated,
        line_plot=line_plot,
        most_findings=_MOST_FINDINGS,
        lines_legend=lines_legend,
        file_name=_file_name,
        gauge_axis=lambda column: Markup(gauge_axis(column)),
        packed=_packed,
        row_chart=row_chart,
        sentence=sentence,
        shared_legend=_shared_legend,
        slots=_slots,
        tile_drawing=lambda tile: Markup(tile_drawing(tile)),
        verdict_style=verdict_style,
    )
    return environment


def _brief(texts: Sequence[str]) -> tuple[str, ...]:
    """The sentences that follow a headline; the others follow the first screen."""
    return tuple(text for text in texts if len(text.split()) <= _MOST_WORDS)[:_MOST_BULLETS]


def _source_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "leadline"


def _ending(name: str) -> str:
    """`CSV` of `run.csv`; a name without an ending as it is."""
    return name.rpartition(".")[2].upper() if "." in name else name


def _packed(text: str) -> str:
    """Compress text with gzip and encode it in base64, which cannot be markup."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _grouped(blocks: Iterable[Block]) -> list[tuple[str, list[Block]]]:
    """Group consecutive blocks of one kind; `plots`, `panels` and `curves` are drawn next to each
    other."""

    def kind(block: Block) -> str:
        if isinstance(block, DeltaChart | DotPlot | StripChart) and block.panel:
            return "panels"
        if isinstance(block, LineChart) and block.panel:
            return "curves"
        return "plots" if isinstance(block, DotPlot | LineChart) else type(block).__name__

    return [(name, list(group)) for name, group in itertools.groupby(blocks, key=kind)]


def _shared_legend(group: Sequence[DotPlot | LineChart]) -> Sequence[tuple[str, str]]:
    """The legend that all of several charts next to each other have; empty without."""
    found = {line_plot(one).legend if isinstance(one, LineChart) else () for one in group}
    return found.pop() if len(group) > 1 and len(found) == 1 else ()


def _slots(table: Table) -> list[int]:
    """1 for each column with marks, so that its digits are aligned."""
    return [int(any(row[index].marks for row in table.rows)) for index in range(len(table.columns))]


_SIGNS = {Severity.ERROR: "✕", Severity.WARNING: "▲", Severity.INFO: "○"}
_MEANINGS = {
    Severity.ERROR: "refused",
    Severity.WARNING: "warning",
    Severity.INFO: "information",
}


def _footnote(table: Table) -> str:
    """Explain the marks in a table."""
    shown = {cell.marks[0].severity for row in table.rows for cell in row if cell.marks}
    signs = {severity: sign for severity, sign in _SIGNS.items() if severity in shown}
    return ", ".join(f"{sign} {_MEANINGS[severity]}" for severity, sign in signs.items())


def _is_matrix(table: Table) -> bool:
    """Whether a table has marks alone, without texts."""
    cells = [cell for row in table.rows for cell in row[1:]]
    return bool(cells) and not any(cell.text for cell in cells)


def _cells(
    table: Table,
    row: Sequence[Cell],
    slots: Sequence[int],
    marks: Callable[[Sequence[Mark]], Markup],
) -> Markup:
    """Render the cells of a row: in Python, as a page may have a hundred thousand.

    Of equal marks in a row, the first links to the finding; the others are its sign."""
    parts = []
    linked: tuple[Mark, ...] = ()
    for index, (column, cell, slot) in enumerate(zip(table.columns, row, slots, strict=True)):
        number = column.kind is Kind.NUMBER
        classes = ["n"] if number else []
        if cell.severity is Severity.ERROR:
            classes.append("bad")
        if cell.missing and not cell.link:
            classes.append("absent word" if len(cell.text) > 1 else "absent")
        if column.scale or cell.gauge:
            classes.append("drawn")
        if column.title == "verdict" and (style := verdict_style(cell.text)):
            classes += ["verdict", style]
        parts.append("<td" if index else '<th scope="row"')
        if classes:
            parts.append(f' class="{" ".join(classes)}"')
        # Only filterable tables are sorted. In others, all cells but names show their whole text.
        if table.filterable:
            parts.append(_sort_key(cell, number=number))
        note = cell.note or (cell.text if len(cell.text) > _CUT else "")
        if note and (note != cell.text or table.filterable or not index):
            parts.append(f' title="{escape(note)}"')
        parts.append(f">{gauge(cell, column)}{_text(cell)}")
        if slot:
            shown = _sign(cell.marks[0]) if cell.marks and cell.marks == linked else ""
            shown = shown or (marks(cell.marks) if cell.marks else "")
            parts.append(f'<span class="k{slot}">{shown}</span>')
            linked = cell.marks or linked
        parts.append("</td>" if index else "</th>")
    return Markup("".join(parts))


def _sign(mark: Mark) -> str:
    return f'<i class="mark {mark.severity.value}">{_SIGNS[mark.severity]}</i>'


def _sort_key(cell: Cell, *, number: bool) -> str:
    """Texts are sorted by what is read, without an attribute; an empty one goes last."""
    if cell.sort is None:
        return "" if number else ' data-sort=""'
    if cell.sort == cell.text and not number:
        return ""
    key = cell.sort if isinstance(cell.sort, str) else f"{cell.sort:.6g}"
    return f' data-sort="{escape(key)}"'


def _text(cell: Cell) -> str:
    if cell.link:
        return Markup('<bdi dir="ltr"><a href="{}">{}</a></bdi>').format(
            cell.link, sentence(cell.text)
        )
    if cell.severity is Severity.ERROR and not cell.missing:
        return f"<bdi>{sentence(cell.text)}</bdi>"
    return isolated(cell.text)


# Scripts that are written from right to left.
_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_SOME_RIGHT_TO_LEFT = re.compile(f"[{_RIGHT_TO_LEFT}]")
# A name in them: words that hold such a letter, with digits and signs between. A comma, a middle
# dot or a Latin word ends it.
_WORD = rf"[^\s,;·]*[{_RIGHT_TO_LEFT}][^\s,;·]*"
_NAME = re.compile(rf"{_WORD}(?: (?:[^\sA-Za-z,;·]+ )*{_WORD})*")
# Longer names are broken or cut, which takes an element.
_LONG = 28
_CUT = 60


# A command, an option or a setting in a sentence. Backticks in a name change at most its font.
_TYPED = re.compile(r"`([^`\s](?:[^`\n]{0,198}[^`\s])?)`")


def sentence(text: str) -> Markup:
    """Escape text, with the text between backticks as code."""
    if "`" not in text:
        return _directed(text)
    parts, done = [], 0
    for found in _TYPED.finditer(text):
        parts += [_directed(text[done : found.start()])]
        parts += [Markup('<code dir="ltr">{}</code>').format(_directed(found[1]))]
        done = found.end()
    return Markup("").join([*parts, _directed(text[done:])])


def _directed(text: str) -> Markup:
    """Escape text that reads from left to right.

    Names in other directions are isolated, so that they do not reorder the text around them.
    """
    if not _SOME_RIGHT_TO_LEFT.search(text):
        return escape(text)
    parts, done = [], 0
    for found in _NAME.finditer(text):
        start, end = found.span()
        name = found.group()
        if name.count("(") > name.count(")"):
            start += name.startswith("(")
        elif name.count(")") > name.count("("):
            end -= name.endswith(")")
        end -= len(text[start:end]) - len(text[start:end].rstrip(".:"))
        parts += [escape(text[done:start]), Markup("<bdi>{}</bdi>").format(text[start:end])]
        done = end
    return Markup("").join([*parts, escape(text[done:])])


def isolated(text: str) -> Markup:
    """Wrap a name in an element where it is long or written from right to left."""
    if len(text) > _LONG or _SOME_RIGHT_TO_LEFT.search(text):
        return Markup('<bdi dir="ltr">{}</bdi>').format(sentence(text))
    return escape(text)
