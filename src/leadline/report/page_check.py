"""Verify a page: compare it with one made again from its archives."""

from __future__ import annotations

import base64
import gzip
import io
import itertools
import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import unescape
from typing import Any

from leadline import errors
from leadline.analysis.comparison import By
from leadline.analysis.predict.facts import LeftOut
from leadline.archive.records import (
    require_known_version,
    schema_of,
)
from leadline.archive.verify import Discrepancy
from leadline.errors import LeadlineError
from leadline.files import DOCUMENT, MEMORY_BYTES
from leadline.report.answers.comparison import CompareOutput
from leadline.report.answers.history import HistoryOutput
from leadline.report.answers.predict import PredictOutput
from leadline.report.answers.ranking import RankOutput, RecommendOutput
from leadline.report.answers.run import ShowOutput
from leadline.report.answers.settings import SettingsOutput
from leadline.report.answers.site import SiteOutput
from leadline.report.render.html import open_page
from leadline.version import __version__

_DOWNLOAD = re.compile(
    r'<script type="text/plain" id="download-\d+" data-name="[^"]*" data-type="([^"]*)">'
    r"([A-Za-z0-9+/=]*)</script>\n?"
)
_GENERATOR = re.compile(r'<meta name="generator" content="Leadline ([^"]*)">\n?')
_LARGEST_ANSWER_BYTES = 64 << 20
# Versions whose pages have no seal.
_UNSEALED = "0.1."
# Floating-point results of another machine may differ in the last digits.
_TOLERANCE = 1e-9
# The path of an archive is not part of its content.
_NOT_COMPARED = "path"
# Fields that pages of earlier versions lack, which claim nothing there.
_ADDED = ("costs",)
# A comparison without this field has verdicts of the method before ADR 25.
_METHOD = "between_runs"
_JUDGED = frozenset(
    (
        *("between_runs", "pools", "overall", "limits", "summary", "explanations", "ratio"),
        *("interval", "interval_alone", "confidence", "deviation", "freedom", "p", "p_adjusted"),
        *("verdict", "evidence", "reasons", "trials_needed", "trials_range", "detectable"),
    )
)
_ANSWERS = (
    *(ShowOutput, CompareOutput, RankOutput, RecommendOutput, PredictOutput, SiteOutput),
    *(HistoryOutput, SettingsOutput),
)
_FEWEST_BLANKS_OF_PROSE = 2
_LONGEST_EXCERPT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page as it was kept. `answer` is what its reader can save as JSON, `text` the page
    without that, `version` the Leadline that made it. `runs` are those that it is of; None is the
    `comparison` of what is the page of one run, `ranked` of what is no ranking, `site` of what is
    no index, `history` of what is no history, whose runs are in its answer, `predicted` of what is
    no forecast, and `settings` of what is no settings study. `intact`: its bytes are those that
    were written."""

    version: str
    intact: bool
    answer: dict[str, Any]
    text: str
    runs: tuple[str, ...]
    comparison: CompareOutput | None
    ranked: RankOutput | RecommendOutput | None = None
    predicted: PredictOutput | None = None
    site: SiteOutput | None = None
    history: HistoryOutput | None = None
    settings: SettingsOutput | None = None


def read_page(name: str, html: str) -> Page:
    """Parse a page; `name` is for errors.

    Raises LeadlineError: `format-invalid` for another file, `archive-newer` for a page of a later
    version.
    """
    html, seal_holds = open_page(html)
    found = next((data for kind, data in _DOWNLOAD.findall(html) if kind == "application/json"), "")
    generator = _GENERATOR.search(html)
    answer = _unpacked(found)
    for model in _ANSWERS:
        require_known_version(answer, schema_of(model), name)
    site: SiteOutput | None = None
    history: HistoryOutput | None = None
    predicted: PredictOutput | None = None
    settings: SettingsOutput | None = None
    schema = answer.get("schema") if isinstance(answer, dict) else None
    try:
        if schema == schema_of(SiteOutput):
            site = _site(answer)
        elif schema == schema_of(HistoryOutput):
            history = _history(answer)
        elif schema == schema_of(PredictOutput):
            predicted = _predicted(answer)
        elif schema == schema_of(SettingsOutput):
            settings = _settings(answer)
        runs = tuple(predicted.runs) if predicted else (settings.run,) if settings else ()
        comparison, ranked, runs = (
            (None, None, runs) if site or history or predicted or settings else _asked(answer)
        )
    except (ValueError, KeyError):
        generator = None
    if generator is None or not isinstance(answer, dict):
        raise LeadlineError(
            errors.FORMAT_INVALID,
            f"{name!r} is no page that `leadline report -o FILE.html` wrote, or it was cut",
            hint="name a run, or make the page again from its archive",
        )
    text = _GENERATOR.sub("", _DOWNLOAD.sub("", html)).rstrip("\n")
    version = unescape(generator[1])
    return Page(
        version=version,
        intact=version.startswith(_UNSEALED) if seal_holds is None else seal_holds,
        answer=answer,
        text=text,
        runs=runs,
        comparison=comparison,
        ranked=ranked,
        predicted=predicted,
        site=site,
        history=history,
        settings=settings,
    )


def _history(answer: object) -> HistoryOutput:
    """The answer of a history. Raises ValueError for another."""
    history = HistoryOutput.model_validate(answer)
    if history.asked is None or not (0 < history.band < 1 and history.runs):
        raise ValueError
    return history


def _predicted(answer: object) -> PredictOutput:
    """The answer of a forecast. Raises ValueError for another."""
    predicted = PredictOutput.model_validate(answer)
    asked = predicted.asked
    if asked is None or not (predicted.runs or asked.inventory):
        raise ValueError
    if asked.leave is not None:
        LeftOut(asked.leave)
    return predicted


def _settings(answer: object) -> SettingsOutput:
    """The answer of a settings study. Raises ValueError for another."""
    settings = SettingsOutput.model_validate(answer)
    if settings.asked is None or not 0 < settings.asked.band < 1:
        raise ValueError
    return settings


def _site(answer: object) -> SiteOutput:
    """The answer of an index. Raises ValueError for another."""
    site = SiteOutput.model_validate(answer)
    if not (0 < site.band < 1 and 0 <= site.between_runs < 1 and site.runs):
        raise ValueError
    return site


def _asked(
    answer: object,
) -> tuple[CompareOutput | None, RankOutput | RecommendOutput | None, tuple[str, ...]]:
    """The comparison or the ranking of a page, if it is one, and its runs.

    Raises ValueError or KeyError for another answer.
    """
    schema = answer.get("schema") if isinstance(answer, dict) else None
    for model in (RankOutput, RecommendOutput):
        if schema == schema_of(model):
            ranked = model.model_validate(answer)
            if ranked.asked is None or not 0 < ranked.asked.band < 1:
                raise ValueError
            return None, ranked, (ranked.run,)
    if schema != schema_of(CompareOutput):
        return None, None, (ShowOutput.model_validate(answer).run,)
    comparison = CompareOutput.model_validate(answer)
    if not 0 < comparison.band < 1:
        raise ValueError
    By(comparison.by)
    return comparison, None, comparison.runs


def check_page(kept: Page, html: str) -> tuple[int, tuple[Discrepancy, ...]]:
    """Count the numbers of a page and list differences from `html`, the page made again.

    Sentences and drawings are compared only where the same version made both: another version
    may change a sentence, but never a number, a name or a verdict. Of a comparison by the verdicts
    before ADR 25 only the measured numbers and the configuration are compared.
    """
    made = read_page("the page made again", html)
    if kept.comparison is not None and _METHOD not in kept.answer:
        kept, made = (replace(page, answer=_measured(page.answer)) for page in (kept, made))
    same_version = kept.version == __version__
    if not same_version:
        without = [key for key in _ADDED if key not in kept.answer]
        answer = {key: value for key, value in made.answer.items() if key not in without}
        made = replace(made, answer=answer)
    problems = []
    numbers = 0
    for where, found, expected in _leaves(kept.answer, made.answer, ""):
        numbers += isinstance(expected, int | float) and not isinstance(expected, bool)
        if not same_version and _is_prose(found) and _is_prose(expected):
            continue
        if not _same(found, expected):
            message = f"says {_excerpt(found)}, raw gives {_excerpt(expected)}"
            problems.append(Discrepancy(path=where, message=message))
    if not kept.intact:
        message = "its SHA-256 is not the one in its last line"
        problems.append(Discrepancy(path="the page", message=message))
    if same_version and kept.text != made.text:
        problems.append(_first_difference(kept.text, made.text))
    return numbers, tuple(problems)


def _measured(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a comparison without what its method gives."""
    found = {key: value for key, value in answer.items() if key not in _JUDGED}
    found["cells"] = [
        {key: value for key, value in cell.items() if key not in _JUDGED}
        for cell in answer["cells"]
    ]
    return found


def _unpacked(packed: str) -> object:
    try:
        with gzip.open(io.BytesIO(base64.b64decode(packed))) as stream:
            text = stream.read(_LARGEST_ANSWER_BYTES)
        # A small page can hold a large answer: it is compressed.
        return json.loads(text) if DOCUMENT.compute(text) <= MEMORY_BYTES else None
    except (OSError, EOFError, ValueError, RecursionError, zlib.error):
        return None


def _leaves(kept: object, made: object, where: str) -> Iterator[tuple[str, object, object]]:
    """Yield the values of both with their dotted paths; None where one of them lacks it."""
    if isinstance(kept, dict) and isinstance(made, dict):
        for key in dict.fromkeys((*kept, *made)):
            if key != _NOT_COMPARED:
                yield from _leaves(kept.get(key), made.get(key), f"{where}.{key}".lstrip("."))
    elif isinstance(kept, list) and isinstance(made, list):
        if len(kept) != len(made):
            yield f"{where} (count)", len(kept), len(made)
        for index, pair in enumerate(zip(kept, made, strict=False)):
            yield from _leaves(*pair, f"{where}[{index}]")
    else:
        yield where, kept, made


def _is_prose(value: object) -> bool:
    """Whether a value is a sentence: names, codes and verdicts of the contracts have few words."""
    return isinstance(value, str) and value.count(" ") >= _FEWEST_BLANKS_OF_PROSE


def _same(kept: object, made: object) -> bool:
    if isinstance(kept, float) and isinstance(made, int | float):
        return math.isclose(kept, made, rel_tol=_TOLERANCE)
    return kept == made


def _excerpt(value: object) -> str:
    return json.dumps(value)[:_LONGEST_EXCERPT]


def _first_difference(kept: str, made: str) -> Discrepancy:
    kept_lines, made_lines = kept.splitlines(), made.splitlines()
    for number, lines in enumerate(zip(kept_lines, made_lines, strict=False), start=1):
        if lines[0] != lines[1]:
            equal = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*lines, strict=False))
            begin = max(0, len(list(equal)) - 20)
            part, right = (line[begin : begin + _LONGEST_EXCERPT] for line in lines)
            message = f"says {part!r} where its archive gives {right!r}"
            return Discrepancy(path=f"line {number}", message=message)
    return Discrepancy(
        path=f"line {min(len(kept_lines), len(made_lines)) + 1}",
        message=f"has {len(kept_lines)} lines, its archive gives {len(made_lines)}",
    )
