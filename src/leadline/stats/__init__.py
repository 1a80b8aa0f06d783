"""Numerics with no domain words."""
