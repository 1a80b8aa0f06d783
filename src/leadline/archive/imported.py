"""Other tools' files in an archive, read back as results."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import ImportSource
from leadline.errors import LeadlineError
from leadline.formats.importer import Result
from leadline.formats.importers import importer
from leadline.formats.output import FormatError
from leadline.regular_file import read_content

# Trials of one file follow each other, so that few files need to be kept parsed.
_KEPT = 8


class ImportedFiles:
    """The results of an archive's foreign files; what was parsed last is kept."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._parsed: OrderedDict[str, tuple[Result, ...]] = OrderedDict()
        self._remembered: dict[str, tuple[Result, ...]] = {}

    def remember(self, file: str, results: tuple[Result, ...]) -> None:
        """What somebody has just parsed from files, of which `file` is the first, need not be
        parsed again."""
        self._remembered[file] = results

    def result(self, source: ImportSource) -> Result:
        """The result that a trial was made from; one whose `output` is the error where the files
        cannot be read or understood. Raises LeadlineError(`archive-damaged`)."""
        first = source.files[0]
        results = self._remembered.get(first) or self._parsed.get(first)
        if results is None:
            results = self._parsed[first] = self._read(source)
            while len(self._parsed) > _KEPT:
                self._parsed.popitem(last=False)
        if not 0 <= source.part < len(results):
            raise LeadlineError(
                errors.ARCHIVE_DAMAGED,
                f"{layout.IMPORTED}/{first} holds {len(results)} results, and a trial is of number "
                f"{source.part + 1}",
                context=[str(self._root)],
                hint="`leadline verify` names every damaged file",
            )
        return results[source.part]

    def _read(self, source: ImportSource) -> tuple[Result, ...]:
        try:
            contents = {
                name: read_content(self._inside(f"{layout.IMPORTED}/{file}"))
                for file, name in zip(source.files, source.names, strict=True)
            }
            return importer(source.kind).read(contents)
        except FormatError as error:
            # As when it was imported: a file that was cut or empty is a trial without figures.
            return (Result(workload="", output=error),)
        except (OSError, ValueError) as error:
            raise LeadlineError(
                errors.ARCHIVE_DAMAGED,
                f"{layout.IMPORTED}/{source.files[0]} cannot be read: {error}",
                context=[str(self._root)],
                hint="`leadline verify` names every damaged file",
            ) from error

    def _inside(self, name: str) -> Path:
        path = self._root / name
        if not path.resolve().is_relative_to(self._root.resolve()):
            raise ValueError(f"{name!r} leads out of the archive")
        return path
