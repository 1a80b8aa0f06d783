"""What forecasts cost: calibration of a run's load curves and a forecast of each of 40 cells.

    uv run --frozen python benchmarks/predict.py

Ten curves with the loads 1, 4, 16 and 64: each is calibrated and each of its four cells forecast
after a change of the round trip and of the capacity, with intervals and the sensitivity. `first`
includes the table of networks at these loads, which a process computes once.
"""

from __future__ import annotations

import time

import numpy as np

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.predict.facts import Shift
from leadline.analysis.predict.calibrate import calibrate_levels, forecast, Level
from leadline.model.networks import Network, throughput

LOADS, CURVES = (1, 4, 16, 64), 10
SHIFT = Shift(
    added_s=Estimate(value=1e-3, low=0.9e-3, high=1.1e-3),
    capacity=Estimate(value=0.8, low=0.7, high=0.9),
)
