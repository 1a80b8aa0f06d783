"""Leadline: measures the storage a cluster really gives, and says which numbers can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from leadline.notebook import open_run as open_run

__all__ = ["__version__", "open_run"]


def __getattr__(name: str) -> object:
    """`leadline.open_run` without paying for its imports in `leadline --help`."""
    if name == "open_run":
        from leadline.notebook import open_run

        return open_run
    raise AttributeError(f"module 'leadline' has no attribute {name!r}")
