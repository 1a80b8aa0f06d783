"""Forecasts: what a change would do to a cell, and whether a result is expected."""
