"""No order of a set shows. The hash of a string differs from process to process, and with it the
order of a set of strings: an answer that follows it differs too, and `verify` reports that."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "leadline"
# Sets that are sorted by a key which no two of their elements share.
ALLOWED = {
    "analysis/comparison.py: found": "value_order ends with the value itself",
    "importing/studies.py: known - set(names)": "_natural has every part of the path",
    "report/marks.py: {(finding.code, finding.severity) for finding in findings}": "key has both",
}

_TYPES = {"set", "frozenset", "AbstractSet", "Set", "MutableSet"}
_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}
# Functions with the same result in every order of what they take.
_FREE = {"set", "frozenset", "any", "all", "sum", "len", "Counter", "pgs_with"}
# Equals stay in their order, and the first of equals is chosen.
_FREE_WITHOUT_KEY = {"sorted", "min", "max"}
_ORDERED = {"list", "tuple", "enumerate", "iter", "zip", "map", "filter", "join", "fromkeys"}
_ORDERED |= {"chain", "from_iterable", "extend", "fsum", "dict", "deque", "islice"}
# Names, and whether each is bound to sets only.
_Known = dict[str, bool]


def _is_type(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return isinstance(annotation, ast.Name) and annotation.id in _TYPES


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


class Declared:
    """Fields and functions, by name, that are sets in each class and module that has the name."""

    def __init__(self, trees: list[ast.Module]) -> None:
        fields: dict[str, set[bool]] = defaultdict(set)
        functions: dict[str, set[bool]] = defaultdict(set)
        for node in (node for tree in trees for node in ast.walk(tree)):
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                        fields[item.target.id].add(_is_type(item.annotation))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                marks = {_name(item) for item in node.decorator_list}
                is_field = bool(marks & {"property", "cached_property"})
                (fields if is_field else functions)[node.name].add(_is_type(node.returns))
        self.fields = {name for name, kinds in fields.items() if kinds == {True}}
        self.functions = {name for name, kinds in functions.items() if kinds == {True}}


class Orders:
    """Places of a module at which the order of a set shows."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared

    def found(self, scope: ast.AST, outer: _Known | None = None) -> Iterator[ast.expr]:
        """Expressions of sets whose order shows in a module or function and those within."""
        inner, nodes = _parts(scope)
        known = {**(outer or {}), **self._names(scope, nodes, outer or {})}
        free = {id(each) for node in nodes for each in _free(node)}
        for node in nodes:
            for each in _shown(node):
                if id(node) not in free and self._is_set(each, known):
                    yield each
        for function in inner:
            yield from self.found(function, known)

    def _names(self, scope: ast.AST, nodes: list[ast.AST], outer: _Known) -> _Known:
        """Names that this scope binds: whether each is bound to sets only."""
        bound: dict[str, list[bool]] = defaultdict(list)
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            arguments = scope.args
            for given in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                bound[given.arg].append(_is_type(given.annotation))
        assigned: dict[str, list[ast.expr]] = defaultdict(list)
        for node in nodes:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                    bound[name].append(_is_type(annotation))
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    assigned[name].append(value)
                case ast.NamedExpr(target=ast.Name(id=name), value=value):
                    assigned[name].append(value)
                case ast.For(target=target) | ast.comprehension(target=target):
                    for item in ast.walk(target):
                        if isinstance(item, ast.Name):
                            bound[item.id].append(False)
                case ast.Assign(targets=targets):
                    for item in (item for target in targets for item in ast.walk(target)):
                        if isinstance(item, ast.Name):
                            bound[item.id].append(False)
        known = {**outer, **dict.fromkeys(assigned, False)}
        known |= {name: all(kinds) for name, kinds in bound.items()}
        for name, values in assigned.items():
            kinds = [*bound[name], *(self._is_set(value, known) for value in values)]
            known[name] = all(kinds)
        return {name: known[name] for name in (*bound, *assigned)}

    def _is_set(self, node: ast.expr, known: _Known) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return known.get(name, False)
            case ast.Attribute(attr=name):
                return name in self._declared.fields
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _OPERATORS):
                return any(self._is_set(side, known) or _are_keys(side) for side in (left, right))
            case ast.IfExp(body=body, orelse=other):
                return self._is_set(body, known) or self._is_set(other, known)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _METHODS:
                return self._is_set(value, known)
            case ast.Call(func=function):
                name = _name(function)
                is_type = isinstance(function, ast.Name) and name in _TYPES
                return is_type or name in self._declared.functions
        return False


def _parts(scope: ast.AST) -> tuple[list[ast.AST], list[ast.AST]]:
    """The functions in a scope, and what else is in it, in its order."""
    inner: list[ast.AST] = []
    nodes: list[ast.AST] = []
    rest = list(ast.iter_child_nodes(scope))[::-1]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inner.append(node)
        else:
            nodes.append(node)
            rest += list(ast.iter_child_nodes(node))[::-1]
    return inner, nodes


def _is_keyed(call: ast.Call) -> bool:
    return any(keyword.arg == "key" for keyword in call.keywords)


def _free(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of a node that may take a set in any order, as the node's result is the same."""
    given: list[ast.expr] = []
    match node:
        case ast.SetComp(generators=generators):
            yield from generators
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FREE:
            given = args
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FREE_WITHOUT_KEY:
            given = [] if _is_keyed(node) else args
    for each in given:
        match each:
            case ast.GeneratorExp(generators=generators) | ast.ListComp(generators=generators):
                yield from generators
            case ast.Call(func=ast.Name(id="map" | "filter")):
                yield each


def _shown(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions whose order a node shows, if they are sets."""
    match node:
        case ast.For(iter=each) | ast.comprehension(iter=each):
            yield each
        case ast.YieldFrom(value=each) | ast.FormattedValue(value=each):
            yield each
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            yield from (part.value for part in parts if isinstance(part, ast.Starred))
        case ast.Assign(targets=[ast.Tuple(elts=parts) | ast.List(elts=parts)], value=each):
            if len(parts) > 1:
                yield each
        case ast.Call(func=function, args=given):
            name = _name(function)
            if name in _ORDERED or (name in _FREE_WITHOUT_KEY and _is_keyed(node)):
                yield from given
            if name not in _FREE:
                yield from (part.value for part in given if isinstance(part, ast.Starred))


def _are_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) == "keys" and not node.args


def _found_in_source() -> dict[str, int]:
    """Every place, as the path and the expression, with its line."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    orders = Orders(Declared(list(trees.values())))
    return {
        f"{path.relative_to(SOURCE).as_posix()}: {ast.unparse(each)}": each.lineno
        for path, tree in trees.items()
        for each in orders.found(tree)
    }


@pytest.mark.thorough
def test_no_order_of_a_set_shows() -> None:
    # Searches for garbage in a million new objects would take most of the time.
    gc.disable()
    try:
        found = _found_in_source()
    finally:
        gc.enable()
    lines = [f"line {line} of {text}" for text, line in found.items() if text not in ALLOWED]
    assert not lines, "sort these sets, or use a dict:\n" + "\n".join(lines)
    assert not ALLOWED.keys() - found.keys(), "no longer in the source"


@pytest.mark.parametrize(
    ("line", "shows"),
    [
        ("for x in {a, b}: f(x)", True),
        ("y = [x for x in set(a)]", True),
        ("y = sorted(x for x in set(a))", False),
        ("y = ', '.join({*a, *b})", True),
        ("y = sorted({*a, *b})", False),
        ("y = sorted({*a, *b}, key=len)", True),
        ("y = max(set(a), key=a.count)", True),
        ("y = {f(x) for x in set(a)}", False),
        ("y = tuple(a.keys() | b.keys())", True),
        ("z = {1} | b\ny = [*z]", True),
        ("z = {1} | b\nz = sorted(z)\ny = [*z]", False),
        ("(y,) = {*a}", False),
        ("x, y = {*a}", True),
        ("y = max(map(len, {a, b}))", False),
        ("def f(s: set[str]): return list(s)", True),
        ("def f(s: frozenset[str]): return len(s)", False),
    ],
)
def test_an_order_that_shows_is_recognised(line: str, shows: bool) -> None:
    tree = ast.parse(line)
    assert bool(list(Orders(Declared([tree])).found(tree))) == shows
