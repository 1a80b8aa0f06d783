"""Leadline: measures the storage a cluster really gives, and says which numbers can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from leadline.notebook import compare as compare
    from leadline.notebook import layers as layers
    from leadline.notebook import open_run as open_run
    from leadline.notebook import rank as rank
    from leadline.notebook import scale as scale

__all__ = ["__version__", "compare", "layers", "open_run", "rank", "scale"]


def __getattr__(name: str) -> object:
    """`leadline.open_run` and the others without paying for their imports in `leadline --help`."""
    if name in ("compare", "layers", "open_run", "rank", "scale"):
        from leadline import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module 'leadline' has no attribute {name!r}")
