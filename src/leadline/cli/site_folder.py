"""The folder of a static site: whose files are in it, and how they are replaced."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from leadline import errors
from leadline.archive import layout
from leadline.errors import LeadlineError
from leadline.files import read_content
from leadline.report.answers.base import Output
from leadline.report.answers.site import SiteComparison, SiteOutput, SiteRun
from leadline.version import __version__

INDEX = "index.html"
RECORD = "leadline-site.json"
_TEMPORARY = ".leadline-site.new"
_PAGE = re.compile(r"index\.html|(?:run|compare)-[a-z0-9._-]+\.html")
_LONGEST_NAME = 60


class SiteRecord(Output):
    """What `leadline site` wrote into a folder: the pages by file name, each with a digest of what
    it was made from, and the index as data."""

    schema_: Literal["leadline/site-record/1"] = Field(
        default="leadline/site-record/1", alias="schema"
    )
    version: str
    files: dict[str, str]
    site: SiteOutput | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPage:
    """A page to be made: of `run`, or of its comparison with `baseline` (itself: its clusters).
    `source` is a digest of what it is made from."""

    name: str
    run: Path
    baseline: Path | None
    source: str


def page_name(kind: str, *folders: str) -> str:
    """A file name that every file system can hold, different for different folders."""
    plain = [re.sub(r"[^a-z0-9._-]+", "-", name.lower())[:_LONGEST_NAME] for name in folders]
    words = "-against-".join(plain)
    if plain != list(folders) or len(folders) > 1:
        words += f"-{digest(*folders)[:8]}"
    return f"{kind}-{words}.html"


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()


class SiteFolder:
    """A folder with a site, or one to be. Its record is written before any page, so that a site
    that was interrupted is known as Leadline's."""

    def __init__(self, path: Path) -> None:
        """Raises LeadlineError (`output-unwritable`, `format-invalid`); nothing is written."""
        self.path = path
        if (path / layout.MANIFEST).exists():
            raise LeadlineError(
                errors.OUTPUT_UNWRITABLE,
                f"{str(path)!r} is an archive",
                hint="name another folder for the site",
            )
        self.record = self._read()

    def _read(self) -> SiteRecord | None:
        path = self.path / RECORD
        if not os.path.lexists(path):
            return None
        try:
            record = SiteRecord.model_validate_json(read_content(path))
            if all(map(_PAGE.fullmatch, record.files)):
                return record
        except OSError as error:
            raise _unwritable(path, error) from error
        except ValidationError:
            pass
        raise LeadlineError(
            errors.FORMAT_INVALID,
            f"{str(path)!r} is not a record that this version of `leadline site` wrote",
            hint="name another folder, or move that file away",
        )

    def _own(self, name: str) -> bool:
        """Whether Leadline wrote that page and it is unchanged."""
        from leadline.report.render.html import open_page

        if self.record is None or name not in self.record.files:
            return False
        try:
            content = read_content(self.path / name)
            return open_page(content.decode("utf-8"))[1] is True
        except (OSError, UnicodeDecodeError):
            return False

    def refuse_others(self, names: Iterable[str], force: bool) -> None:
        """Raises LeadlineError (`output-unwritable`) where a page would replace a foreign file."""
        for name in [] if force else names:
            path = self.path / name
            if os.path.lexists(path) and not self._own(name):
                changed = self.record is not None and name in self.record.files
                why = "was changed since Leadline wrote it" if changed else "is there already"
                raise LeadlineError(
                    errors.OUTPUT_UNWRITABLE,
                    f"{str(path)!r} {why}",
                    hint="name another folder, or --force",
                )

    def unchanged(self, planned: Iterable[PlannedPage]) -> dict[str, SiteRun | SiteComparison]:
        """The rows of pages that need not be made again."""
        if self.record is None or self.record.site is None:
            return {}
        files, site = self.record.files, self.record.site
        every: list[SiteRun | SiteComparison] = [*site.runs, *site.comparisons]
        rows = {row.page: row for row in every if row.page}
        return {
            page.name: rows[page.name]
            for page in planned
            if page.name in rows and files.get(page.name) == page.source and self._own(page.name)
        }

    def begin(self, planned: Sequence[PlannedPage]) -> None:
        """Make the folder, and record what will be written."""
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        before = self.record
        names = {INDEX: "", **dict.fromkeys((page.name for page in planned), "")}
        self._record({**names, **(before.files if before else {})}, before.site if before else None)

    def finish(self, planned: Sequence[PlannedPage], site: SiteOutput) -> list[str]:
        """Remove pages of archives that are gone, and record the site. Pages of archives that
        cannot be read any more stay. Return names of changed files that were to be removed."""
        files = {INDEX: "", **{page.name: page.source for page in planned}}
        before = self.record.files if self.record else {}
        damaged = {page_name("run", row.folder): "" for row in site.runs if row.error}
        files |= {name: "" for name in damaged if name in before}
        left = []
        for name in sorted(before.keys() - files.keys()):
            if self._own(name):
                (self.path / name).unlink()
            elif os.path.lexists(self.path / name):
                left.append(name)
        self._record(files, site)
        return left

    def _record(self, files: dict[str, str], site: SiteOutput | None) -> None:
        record = SiteRecord(version=__version__, files=files, site=site)
        self.write(RECORD, (record.to_json() + "\n").encode())

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all. Raises LeadlineError (`output-unwritable`)."""
        temporary = self.path / _TEMPORARY
        try:
            temporary.unlink(missing_ok=True)
            with temporary.open("xb") as stream:
                stream.write(content)
            temporary.replace(self.path / name)
        except OSError as error:
            raise _unwritable(self.path / name, error) from error


def _unwritable(path: Path, error: OSError) -> LeadlineError:
    return LeadlineError(
        errors.OUTPUT_UNWRITABLE,
        f"{str(path)!r} cannot be written: {error.strerror}",
        hint="name a folder that you may write to, in a folder that exists",
    )
