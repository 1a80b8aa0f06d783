"""No module imports itself through others, for types or lazily either: layers hold packages apart,
and this holds the modules within one apart."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_no_imports_run_in_a_circle() -> None:
    graph = grimp.build_graph("leadline")
    modules = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(modules) > 300
    TopologicalSorter(modules).prepare()  # CycleError names the circle
