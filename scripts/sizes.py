"""Print the sizes of the source as Markdown, as docs/adr/0023-house.md lists them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "leadline"
SMALL, LARGE, WIDE = 60, 600, 9


def private_functions(tree: ast.Module) -> list[str]:
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and re.match("_[^_]", node.name)
    ]


def parameters(node: ast.FunctionDef) -> int:
    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return sum(argument.arg not in ("self", "cls") for argument in every)


def main() -> None:
    texts = {path.relative_to(SOURCE): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    length = {path: text.count("\n") for path, text in texts.items()}
    lines, files = Counter[str](), Counter[str]()
    for path in texts:
        package = path.parts[0] if len(path.parts) > 1 else "(root)"
        lines[package] += length[path]
        files[package] += 1
    print("| package | lines | files |\n|---|---|---|")
    for package in sorted(lines):
        print(f"| {package} | {lines[package]:,} | {files[package]} |")
    print(f"| all of src | {lines.total():,} | {files.total()} |\n")

    private = [(path, name) for path, tree in trees.items() for name in private_functions(tree)]
    # The definition and one more place, other than an attribute of the same name.
    once = [
        name
        for path, name in private
        if len(re.findall(rf"(?<![\w.]){re.escape(name)}\b", texts[path])) == 2
    ]
    functions = [
        node
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    small = [path for path in texts if length[path] < SMALL and path.name != "__init__.py"]
    large = sorted(str(path) for path in texts if length[path] > LARGE)
    typical = sum(150 <= length[path] <= 400 for path in texts)
    print("| measure | value |\n|---|---|")
    print(f"| files under {SMALL} lines, without `__init__` | {len(small)} |")
    print(f"| files of 150 to 400 lines | {typical} |")
    print(f"| files over {LARGE} lines | {', '.join(large) or 'none'} |")
    print(f"| private module functions | {len(private):,} |")
    print(f"| of these with one caller | {len(once):,} |")
    print(
        f"| functions of {WIDE} and more parameters | "
        f"{sum(parameters(node) >= WIDE for node in functions)} |"
    )
    print(f"| most parameters of a call | {max(map(parameters, functions))} |")
    shown = sum(text.count("visible(") for text in texts.values())
    print(f"| calls of `visible(` | {shown} |")


if __name__ == "__main__":
    main()
