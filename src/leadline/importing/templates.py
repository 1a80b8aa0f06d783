"""Path templates: what the folders and names of a study's files mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from leadline import errors
from leadline.data import load_table
from leadline.errors import LeadlineError


class Role(StrEnum):
    """What a field of a template means. `label` and `level` keep the field's name."""

    CLUSTER = "cluster"
    TARGET = "target"
    LABEL = "label"
    WORKLOAD = "workload"
    LEVEL = "level"
    REPEAT = "repeat"
    CLIENT = "client"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A known layout: templates in the order in which they are tried. `copies` match other copies
    of its results."""

    name: str
    source: str
    templates: tuple[str, ...]
    copies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """The known layouts, and names of fields by the role that they have. `clients` are those levels
    that count the concurrent clients."""

    roles: Mapping[str, tuple[str, ...]]
    layouts: tuple[Layout, ...]


def known_layouts() -> Layouts:
    return load_table("layouts", Layouts)


_FIELD = re.compile(r"\{(?:(?P<role>[a-z]+):)?(?P<name>[A-Za-z_]\w*)(?:=(?P<values>[^{}/]+))?\}")
_TOKEN = re.compile(r"\{[^{}]*\}|\*\*/|\*|[^{}*]+|[{}]")
_VALUES: Final = {"#": r"\d+", "word": "[^/.]+", "size": r"\d+(?:\.\d+)?[kKmMgG]?[iI]?[bB]?"}
_LONGEST: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A template as two expressions that prefer short and long fields: where they differ, a path
    matches two ways."""

    text: str
    roles: Mapping[str, Role]
    shortest: re.Pattern[str] = field(repr=False)
    longest: re.Pattern[str] = field(repr=False)

    def match(self, path: str) -> Mapping[str, str] | None:
        """Return the fields of a path; None where the template does not match. Raises ValueError
        where it matches in more than one way."""
        found = self.shortest.fullmatch(path)
        other = self.longest.fullmatch(path)
        if found is None or other is None:
            return None
        if found.groupdict() != other.groupdict():
            ways = (_shown(found.groupdict()), _shown(other.groupdict()))
            raise ValueError(f"matches the template in two ways: {ways[0]}; {ways[1]}")
        return found.groupdict()


def _shown(fields: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in fields.items())


def parse_template(text: str) -> Template:
    """Raises LeadlineError (`usage`) for a template that cannot be understood."""
    roles: dict[str, Role] = {}
    short: list[str] = []
    long: list[str] = []
    before = ""
    for token in _TOKEN.findall(text):
        if token.startswith("{") and token != "{":
            name, role, values = _field(token, text)
            if name in roles:
                raise _bad(text, f"the field {name!r} is there twice")
            if before == "field":
                raise _bad(text, f"nothing separates {{{name}}} from the field before it")
            roles[name] = role
            pattern = values or "[^/]+"
            short.append(f"(?P<{name}>{values or '[^/]+?'})")
            long.append(f"(?P<{name}>{pattern})")
            before = "field"
            continue
        if token in ("{", "}"):
            raise _bad(text, "a brace is not closed")
        piece = {"**/": "(?:[^/]+/){0,32}", "*": "[^/]*"}.get(token) or re.escape(token)
        short.append(piece)
        long.append(piece)
        before = ""
    if not roles or len(text) > _LONGEST:
        raise _bad(text, "it has no field" if not roles else "it is too long")
    return Template(
        text=text,
        roles=roles,
        shortest=re.compile("".join(short)),
        longest=re.compile("".join(long)),
    )


def _field(token: str, text: str) -> tuple[str, Role, str]:
    found = _FIELD.fullmatch(token)
    if found is None:
        raise _bad(text, f"{token} is no field")
    name, given, values = found["name"], found["role"], found["values"] or ""
    if given:
        if given not in [*Role]:
            raise _bad(text, f"there is no role {given!r}: {', '.join(Role)}")
        role = Role(given)
    else:
        role = _role_of(name)
    words = "|".join(re.escape(value) for value in values.split("|"))
    return name, role, _VALUES.get(values) or (f"(?:{words})" if values else "")


def _role_of(name: str) -> Role:
    if name.startswith("_"):
        return Role.IGNORED
    for role, names in known_layouts().roles.items():
        if name in names and role in [*Role]:
            return Role(role)
    return Role.LEVEL


def _bad(text: str, fact: str) -> LeadlineError:
    return LeadlineError(
        errors.USAGE,
        f"the layout {text[:200]!r} cannot be used: {fact}",
        hint="write it like '{pool}/{workload}/{client}-fio.json', or name a layout: auto, "
        + ", ".join(layout.name for layout in known_layouts().layouts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a path says of its result; empty where it says nothing. `clients` is the number of
    concurrent clients that the path names, 0 if none."""

    cluster: str = ""
    target: str = ""
    workload: str = ""
    level: str = ""
    repeat: str = ""
    client: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    clients: int = 0


_BLOCK_SIZES: Final = ("block_size", "bs")


def place_of(template: Template, fields: Mapping[str, str]) -> Place:
    """Return what the fields of one path mean."""
    by_role: dict[Role, list[tuple[str, str]]] = {role: [] for role in Role}
    for name, value in fields.items():
        by_role[template.roles[name]].append((name, value))
    counted = known_layouts().roles["clients"]
    numbers = [
        int(found[0])
        for name, value in by_role[Role.LEVEL]
        if name in counted and (found := re.findall(r"\d{1,6}", value))
    ]
    return Place(
        cluster=_joined(by_role[Role.CLUSTER]),
        target=_joined(by_role[Role.TARGET]),
        workload=_joined(sorted(by_role[Role.WORKLOAD], key=lambda pair: pair[0] in _BLOCK_SIZES)),
        level=" ".join(
            value if name == "level" else f"{name}={int(value) if value.isdecimal() else value}"
            for name, value in by_role[Role.LEVEL]
        ),
        repeat=_joined(by_role[Role.REPEAT]),
        client=_joined(by_role[Role.CLIENT]),
        labels=tuple(by_role[Role.LABEL]),
        clients=numbers[0] if numbers else 0,
    )


def _joined(values: Sequence[tuple[str, str]]) -> str:
    return " ".join(value for _, value in values)


# A folder `run_2`, or a name that ends with `-2` or `_2`.
_REPEAT_FOLDER = re.compile(r"(?:run|rep|repeat|iteration|iter|trial|pass)[-_]?(\d{1,4})", re.I)
_REPEAT_ENDING = re.compile(r"(.+?)[-_](\d{1,3})(\.[A-Za-z+]+)?")


def repeats_of(paths: Sequence[str]) -> Iterator[tuple[str, Place]]:
    """Yield the paths that are numbered repeats, with their places: `run_1/`, `run_2/` and so on in
    one folder, or names that end with -1, -2 and so on without a gap."""
    found: dict[str, dict[int, str]] = {}
    for path in paths:
        base, number = _without_number(path)
        if number is not None:
            found.setdefault(base, {})[number] = path
    for base, numbered in found.items():
        numbers = sorted(numbered)
        if len(numbers) > 1 and numbers[0] <= 1 and numbers[-1] - numbers[0] == len(numbers) - 1:
            for number in numbers:
                yield numbered[number], Place(target=base, repeat=str(number))


def _without_number(path: str) -> tuple[str, int | None]:
    """Return the path without the number of the repeat, and that number."""
    *folders, name = path.split("/")
    for index in range(len(folders) - 1, -1, -1):
        if match := _REPEAT_FOLDER.fullmatch(folders[index]):
            rest = [*folders[:index], *folders[index + 1 :], name.rpartition(".")[0] or name]
            return "/".join(rest), int(match[1])
    if match := _REPEAT_ENDING.fullmatch(name):
        return "/".join([*folders, match[1]]), int(match[2])
    return path, None
