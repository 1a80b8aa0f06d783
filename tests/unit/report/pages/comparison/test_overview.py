"""The first screen of a comparison: what its tiles, panels and boxes say."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.analysis.comparison import Comparison
from leadline.metrics import Metric, Op
from leadline.report.document import Branch, Columns, DeltaChart, Tiles, Tree
from leadline.report.pages.comparison.overview import front_blocks
from leadline.report.words import change_text
from tests.unit.report.pages.comparison.builder import study
