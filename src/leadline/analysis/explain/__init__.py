"""Explanations: which configuration differences account for which changes."""
