"""Leadline: measures the storage a cluster really gives, and says which numbers can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.version import __version__

if TYPE_CHECKING:
    from leadline.api import compare as compare
    from leadline.api import layers as layers
    from leadline.api import open_run as open_run
    from leadline.api import rank as rank
    from leadline.api import scale as scale
    from leadline.api import study_settings as study_settings

__all__ = ["__version__", "compare", "layers", "open_run", "rank", "scale", "study_settings"]


def __getattr__(name: str) -> object:
    """`leadline.open_run` and the others without paying for their imports in `leadline --help`."""
    if name in __all__:
        from leadline import api

        return getattr(api, name)
    raise AttributeError(f"module 'leadline' has no attribute {name!r}")
